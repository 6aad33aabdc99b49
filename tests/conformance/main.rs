//! What every store promises, case by case: every case on every store.
//!
//! Cases are listed here once and stores in `tests/backends` once. A store that is not held to a case says why, there.

#![allow(clippy::unwrap_used, reason = "a case ends where what it takes for granted does not hold")]

#[path = "../backends/mod.rs"]
mod backends;
mod bench;
mod build;
mod concurrency;
mod deltas;
mod durability;
mod expiry;
mod following;
mod forks;
mod history;
mod idempotency;
mod life;
mod listing;
mod log;
mod pages;
mod past;
mod preconditions;
mod rewinds;
mod scoping;
mod sizes;
mod tails;
mod versioning;
mod watching;

/// Makes the tests `on::concept::case::store`. What is in a concept's file and not in the list is dead code, which clippy refuses.
macro_rules! suite {
    ($($concept:ident { $($case:ident,)+ })+) => {
        mod on {
            $(mod $concept {
                $(mod $case {
                    crate::backends::for_each_backend!(
                        crate::bench::run,
                        concat!(stringify!($concept), "::", stringify!($case)),
                        crate::$concept::$case
                    );
                })+
            })+
        }

        /// Every case, as exclusions name them.
        const CASES: &[&str] = &[$($(concat!(stringify!($concept), "::", stringify!($case)),)+)+];
    };
}

suite! {
    scoping {
        creation_sorts_state_by_prefix,
        an_event_applies_its_delta_by_prefix,
        who_shares_a_scope_sees_it_at_once_and_nobody_else,
        a_session_created_later_sees_what_is_shared,
        bare_prefixes_are_the_empty_keys_of_their_scopes,
        other_spellings_of_a_prefix_are_own_keys,
        state_is_ordered_by_scope_and_name,
        chosen_keys_come_alone_and_only_where_they_are_seen,
        a_scope_that_was_never_written_to_is_empty,
        shared_state_outlives_every_session,
        addresses_and_keys_are_opaque,
    }
    versioning {
        a_creation_raises_each_wider_scope_by_one,
        every_event_raises_what_it_changes,
        every_event_of_a_batch_raises_by_itself,
        an_update_raises_the_scopes_that_end_changed,
        a_set_counts_also_to_an_equal_value,
        what_changes_nothing_leaves_no_trace,
        what_is_not_state_raises_nothing,
    }
    deltas {
        sets_come_before_removals_and_removals_before_operations,
        every_operation_sees_what_is_there_in_every_scope,
        an_event_keeps_what_its_keys_became,
        a_wider_scope_takes_updates_without_a_session,
        events_of_a_batch_see_those_before_them,
        null_is_a_value_and_values_are_replaced_whole,
        an_operation_on_another_type_is_refused,
        a_fault_of_an_operation_names_its_place,
        what_a_delta_resolves_to_has_a_limit,
        what_a_batch_resolves_to_has_a_limit,
        a_batch_that_was_accepted_is_accepted_again,
        an_operation_that_leaves_its_value_leaves_no_trace,
    }
    preconditions {
        a_sequence_is_that_of_the_session,
        for_a_wider_scope_it_is_that_scopes_version,
        each_condition_on_a_key_holds_or_not_in_every_scope,
        the_version_of_a_key_from_the_creation_is_0,
        all_that_fails_is_reported_at_once_and_nothing_is_written,
        a_batch_is_checked_once_before_its_first_event,
        replays_are_not_checked,
        a_precondition_comes_before_a_reused_id,
    }
    idempotency {
        the_same_event_again_is_answered_as_stored,
        another_event_of_the_same_id_is_refused,
        an_event_may_come_twice_in_a_batch,
        replays_and_new_events_mix_in_a_batch,
        a_replay_knows_what_a_rewind_hid_since,
        event_ids_belong_to_one_life_of_one_session,
        a_rewind_again_is_answered_with_its_marker,
        a_request_of_a_session_is_carried_out_once,
        a_request_belongs_to_its_scope,
        a_request_that_changes_nothing_is_remembered,
        what_was_refused_is_not_remembered,
    }
    log {
        sequences_are_dense_and_begin_at_1,
        an_event_comes_back_as_it_went,
        json_comes_back_byte_for_byte,
        names_come_back_byte_for_byte,
        a_refused_event_leaves_nothing_of_its_batch,
        commit_times_never_go_back_within_a_session,
        the_last_event_time_is_that_of_the_newest_event,
        the_first_and_the_last_instant_are_kept,
        a_batch_may_be_as_large_as_the_wire_lets_it,
        an_append_answers_what_it_left,
    }
    concurrency {
        increments_of_one_session_are_never_lost,
        sessions_that_share_a_scope_lose_nothing,
        of_racing_writers_that_expect_a_sequence_one_wins,
        of_the_same_event_from_many_one_is_stored,
        of_the_same_request_from_many_one_is_carried_out,
        of_racing_creations_one_creates,
        a_refused_command_does_not_harm_its_neighbours,
        a_read_sees_whole_commits_only,
        a_caller_that_leaves_harms_nobody,
        writes_take_effect_in_the_order_of_their_first_polls,
    }
    past {
        every_event_left_its_state_also_in_a_batch,
        others_changes_show_as_the_event_saw_them,
        keys_have_the_versions_that_they_had,
        the_session_ends_at_that_event,
        there_is_no_future,
        before_a_rewind_everything_is_still_there,
        the_newest_event_is_as_of_now,
    }
    forks {
        a_fork_takes_over_all_or_a_part,
        a_fork_has_its_sources_past,
        a_fork_knows_the_ids_that_it_took_over_and_no_others,
        a_fork_can_be_rewound_and_forked,
        what_the_source_hid_later_shows_in_the_fork,
        a_fork_outlives_its_source,
        a_fork_needs_a_source_and_a_free_address,
        a_fork_is_not_older_than_its_events,
    }
    rewinds {
        a_rewind_restores_the_sessions_own_state,
        what_a_rewind_hides_shows_when_asked_for,
        to_the_last_event_only_the_marker_is_hidden,
        to_0_it_is_as_created,
        a_rewind_can_be_rewound,
        hidden_events_do_not_count_as_recent,
        a_rewind_needs_a_session,
    }
    pages {
        every_selection_agrees_with_its_definition,
        pages_put_together_are_the_whole,
        a_page_ends_at_its_bounds_and_not_before,
        a_read_of_a_session_selects_alike,
        pages_stay_in_place_while_the_log_grows,
        a_filter_that_little_passes_finds_it_in_the_end,
    }
    listing {
        sessions_come_by_their_last_event_with_ties_ascending,
        a_users_sessions_come_alone,
        all_labels_have_to_match,
        labels_are_those_of_the_last_update,
        a_list_carries_state_when_asked,
        the_order_follows_the_last_events,
        pages_stay_in_place_while_sessions_come_and_go,
    }
    history {
        every_change_is_listed_newest_first,
        history_comes_page_by_page,
        the_incarnation_tells_lives_of_a_session_apart,
        shared_history_outlives_the_sessions_that_made_it,
        a_fork_has_the_history_of_what_it_took_over,
        history_and_past_agree,
    }
    life {
        a_creation_keeps_what_it_was_told,
        a_taken_address_is_refused_or_answered_unchanged,
        an_update_changes_what_it_names,
        a_deleted_session_is_gone_for_everything,
        a_session_created_anew_begins_a_new_life,
        a_bare_id_is_enough_where_one_session_has_it,
        a_closed_store_refuses_everything,
    }
    expiry {
        a_session_ends_at_the_very_instant,
        its_address_is_free_for_a_new_life,
        the_end_can_be_moved,
        a_session_may_expire_as_it_is_created,
        a_sweep_is_bounded_and_ends,
    }
    sizes {
        a_creation_fills_a_scope_to_its_limit,
        an_event_fills_a_scope_to_its_limit,
        an_update_fills_a_scope_to_its_limit,
        names_count_without_prefix_and_in_bytes,
        a_full_scope_stops_nothing_else,
        a_batch_fits_event_by_event,
        the_past_always_fits,
    }
    watching {
        events_come_first_and_then_what_others_changed,
        a_user_and_an_application_hear_of_everybody,
        of_each_key_only_the_newest_change_comes,
        an_earlier_life_and_a_source_are_others,
        rewound_events_and_markers_are_events,
        the_life_of_the_position_has_to_be_the_live_one,
        a_watcher_is_told_when_its_session_ends,
        a_position_beyond_the_end_is_quiet,
    }
    following {
        small_pages_lead_to_the_same_end,
        a_long_silence_ends,
        following_live_misses_and_repeats_nothing,
    }
    tails {
        every_write_tells_the_scopes_that_it_changed,
        what_changes_nothing_tells_nobody,
        a_deletion_tells_that_the_session_is_gone,
        the_end_of_an_expired_session_is_told,
        a_new_expiry_is_told,
        reading_and_waiting_in_turn_sees_everything,
    }
    durability {
        everything_is_there_after_a_restart,
        two_stores_are_not_the_same,
    }
}

#[test]
fn an_exclusion_names_a_case_and_a_reason() {
    for backend in [&backends::MEMORY, &backends::SQLITE, &backends::SQLITE_WITHOUT_CACHE] {
        let mut restarts = true;
        for (case, reason) in backend.excluded {
            assert!(CASES.contains(case), "{}: no case {case}", backend.name);
            assert!(reason.len() > 20, "{}: {case} needs a reason", backend.name);
            restarts &= *case != "durability::everything_is_there_after_a_restart";
        }
        assert_eq!(restarts, backend.durable, "{}", backend.name);
    }
}
