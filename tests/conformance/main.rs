//! What every store promises: every case on every store.
//!
//! Cases are listed once, here. Stores are listed once, in `sessiond_test_support::backends`, with the cases that they are excluded from and the reasons.

#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

mod batch;
mod concurrency;
mod deadlines;
mod deltas;
mod durability;
mod expiry;
mod fixture;
mod fork_pieces;
mod forks;
mod history;
mod idempotency;
mod lifecycle;
mod listing;
mod lives;
mod log;
mod names;
mod notifications;
mod pages;
mod past;
mod preconditions;
mod rewinds;
mod scoping;
mod size_limits;
mod versioning;
mod watch_pages;
mod watching;

use sessiond_test_support::{backends, requests};

/// Makes the tests `on::concept::case::store`. A case that is not in the list is dead code, which clippy refuses.
macro_rules! suite {
    ($($concept:ident { $($case:ident,)+ })+) => {
        mod on {
            $(mod $concept {
                $(mod $case {
                    crate::backends::for_each_backend!(
                        crate::fixture::run,
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
        shared_state_is_visible_at_once_in_its_scope_only,
        a_session_created_later_sees_what_is_shared,
        bare_prefixes_are_the_empty_keys_of_their_scopes,
        other_spellings_of_a_prefix_are_session_keys,
        state_is_ordered_by_scope_and_name,
        selected_keys_are_returned_if_visible,
        a_scope_that_was_never_written_to_is_empty,
        shared_state_outlives_every_session,
        addresses_and_keys_are_opaque,
        a_scope_takes_no_keys_of_narrower_scopes,
    }
    versioning {
        a_creation_raises_each_wider_scope_by_one,
        every_event_raises_what_it_changes,
        every_event_of_a_batch_raises_by_itself,
        an_update_raises_the_versions_of_changed_scopes,
        setting_an_equal_value_is_a_change,
        what_changes_nothing_leaves_no_trace,
        metadata_raises_no_version,
    }
    deltas {
        sets_come_before_removals_and_removals_before_operations,
        every_operation_sees_what_is_there_in_every_scope,
        an_event_keeps_what_its_keys_became,
        a_wider_scope_takes_updates_without_a_session,
        events_of_a_batch_see_those_before_them,
        null_is_a_value_and_values_are_replaced_whole,
        an_operation_on_another_type_is_refused,
        a_failed_operation_names_its_field,
        a_resolved_delta_has_a_limit,
        a_resolved_batch_has_a_limit,
        a_batch_that_was_accepted_is_accepted_again,
        an_operation_that_leaves_its_value_leaves_no_trace,
    }
    preconditions {
        expected_sequence_is_the_last_sequence_of_a_session,
        expected_sequence_is_the_version_of_a_wider_scope,
        every_key_condition_works_in_every_scope,
        a_key_set_at_creation_has_version_0,
        all_failed_conditions_are_reported_and_nothing_is_written,
        a_batch_is_checked_once_before_its_first_event,
        replays_are_not_checked,
        a_precondition_comes_before_a_reused_id,
    }
    idempotency {
        a_repeated_event_is_answered_as_stored,
        a_reused_event_id_is_refused,
        an_event_may_come_twice_in_a_batch,
        replays_and_new_events_mix_in_a_batch,
        a_replay_tells_whether_the_event_was_rewound,
        event_ids_belong_to_one_incarnation,
        a_repeated_rewind_is_answered_with_its_marker,
        a_session_request_is_applied_once,
        request_ids_belong_to_one_scope,
        a_request_that_changes_nothing_is_remembered,
        a_refused_request_is_not_remembered,
    }
    lives {
        lives_are_told_apart_after_a_restart,
        versions_of_an_earlier_life_are_never_repeated,
        a_life_is_a_precondition_of_an_update,
        requests_of_an_earlier_life_are_forgotten,
        what_has_state_or_a_session_stays,
        a_session_that_is_created_meanwhile_keeps_its_user,
        a_removed_user_is_not_named_any_more,
        a_long_log_of_an_earlier_life_is_removed_behind_the_next_one,
    }
    log {
        sequences_are_dense_and_begin_at_1,
        an_event_is_read_as_it_was_written,
        an_event_keeps_the_trace_of_its_call,
        json_is_kept_byte_for_byte,
        names_are_kept_byte_for_byte,
        a_refused_event_leaves_nothing_of_its_batch,
        commit_times_never_go_back_within_a_session,
        the_last_event_time_is_that_of_the_newest_event,
        the_first_and_the_last_instant_are_kept,
        a_batch_may_have_the_maximum_of_events,
        an_append_answers_the_state_after_it,
    }
    concurrency {
        increments_of_one_session_are_never_lost,
        sessions_that_share_a_scope_lose_nothing,
        one_of_several_conditional_writers_wins,
        a_concurrently_repeated_event_is_stored_once,
        a_concurrently_repeated_request_is_applied_once,
        concurrent_creations_create_one_session,
        concurrent_creations_after_an_expiry_create_one_session,
        a_bare_id_is_resolved_at_the_commit,
        a_refused_write_does_not_affect_concurrent_writes,
        a_read_sees_whole_commits_only,
        a_cancelled_caller_harms_nobody,
        writes_take_effect_in_the_order_of_their_first_polls,
    }
    deadlines {
        a_write_after_its_deadline_leaves_nothing,
    }
    past {
        every_event_left_its_state_also_in_a_batch,
        wider_scopes_are_read_as_the_event_left_them,
        keys_have_the_versions_that_they_had,
        the_session_is_read_up_to_that_event,
        reads_beyond_the_last_sequence_are_refused,
        rewound_events_are_visible_before_the_marker,
        as_of_the_newest_event_is_now,
    }
    forks {
        a_fork_copies_all_or_a_part,
        a_fork_has_its_sources_past,
        a_fork_has_only_the_ids_of_copied_events,
        a_fork_can_be_rewound_and_forked,
        later_rewinds_of_the_source_do_not_affect_a_fork,
        a_fork_outlives_its_source,
        a_fork_needs_a_source_and_a_free_address,
        a_fork_is_not_older_than_its_events,
    }
    fork_pieces {
        a_fork_is_copied_in_pieces_while_others_write,
        a_fork_ends_with_its_source,
        a_fork_that_is_never_finished_leaves_nothing,
    }
    rewinds {
        a_rewind_restores_the_sessions_own_state,
        rewound_events_are_returned_on_request,
        a_rewind_to_the_last_event_hides_only_its_marker,
        a_rewind_to_0_restores_the_state_at_creation,
        a_rewind_can_be_rewound,
        hidden_events_do_not_count_as_recent,
        a_rewind_needs_a_session,
    }
    pages {
        every_selection_agrees_with_its_definition,
        pages_add_up_to_the_whole,
        a_page_is_filled_to_its_limits,
        reading_a_session_selects_events_alike,
        pages_are_stable_while_the_log_grows,
        a_selective_filter_finds_all_matches,
    }
    batch {
        events_are_read_by_ids_and_sequences_in_any_order,
        no_event_is_found_without_its_session,
    }
    listing {
        sessions_are_ordered_by_last_event_with_ties_ascending,
        sessions_of_one_user_are_listed,
        sessions_of_several_users_are_one_list,
        all_labels_have_to_match,
        labels_are_those_of_the_last_update,
        a_list_carries_state_when_asked,
        the_order_follows_the_last_events,
        pages_are_stable_while_sessions_come_and_go,
    }
    names {
        applications_and_users_are_in_order_of_their_names,
        every_page_of_names_continues_the_last,
        names_are_listed_by_ranges,
        what_has_neither_session_nor_state_is_not_listed,
        an_expired_session_does_not_count,
    }
    history {
        every_change_is_listed_newest_first,
        history_is_read_in_pages,
        history_gets_on_however_many_names_a_snapshot_has,
        history_names_the_incarnation,
        shared_history_outlives_the_sessions_that_made_it,
        a_fork_has_the_history_of_copied_events,
        history_and_past_agree,
    }
    lifecycle {
        a_creation_keeps_its_metadata,
        a_taken_address_is_refused_or_answered_unchanged,
        an_update_changes_what_it_names,
        a_deleted_session_is_not_found_by_any_call,
        a_recreated_session_starts_empty,
        a_bare_id_finds_the_only_session_of_that_id,
        a_bare_id_is_resolved_anew_for_each_write,
        a_bare_id_of_many_sessions_means_the_one_that_is_seen,
        a_closed_store_refuses_everything,
    }
    expiry {
        a_session_ends_at_the_very_instant,
        an_expired_address_is_free,
        an_expiration_can_be_changed,
        an_expiration_is_in_the_future,
        a_sweep_is_bounded_and_ends,
    }
    size_limits {
        a_creation_fills_a_scope_to_its_limit,
        an_event_fills_a_scope_to_its_limit,
        an_update_fills_a_scope_to_its_limit,
        names_count_without_prefix_and_in_bytes,
        a_full_scope_stops_nothing_else,
        a_batch_fits_event_by_event,
        the_past_always_fits,
    }
    watching {
        events_come_before_changes_by_others,
        a_user_and_an_application_receive_changes_by_everybody,
        only_the_newest_change_of_each_key_is_returned,
        changes_by_an_earlier_incarnation_or_a_fork_source_are_returned,
        rewound_events_and_markers_are_events,
        the_incarnation_of_the_position_must_be_live,
        a_page_has_the_expiration_of_its_session,
        a_position_beyond_the_end_is_an_error,
    }
    watch_pages {
        small_pages_add_up_to_one_large_page,
        a_long_range_without_matches_is_read_in_pieces,
        watching_live_misses_and_repeats_nothing,
    }
    notifications {
        every_write_wakes_the_scopes_that_it_changed,
        what_changes_nothing_wakes_nobody,
        a_deletion_wakes_the_session,
        the_end_of_an_expired_session_wakes_it,
        a_new_expiration_wakes_the_session,
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
