//! The loads: each has a name, what it needs, and what it does.

mod expiry;
mod reads;
mod requests;
mod strangers;
mod streams;
mod writes;

use std::{pin::Pin, sync::Arc};

use sessiond::cli::Failure;

use super::attacker::Attacker;

type Step = fn(Arc<Attacker>) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

pub struct Load {
    pub name: &'static str,
    pub about: &'static str,
    /// Of the server.
    pub flags: &'static [&'static str],
    pub set_up: Step,
    pub attack: Step,
}

const LIMITED: &[&str] = &["--max-appends-per-principal", "100"];

macro_rules! load {
    ($name:literal, $about:literal, $set_up:expr, $attack:expr) => {
        load!($name, $about, &[], $set_up, $attack)
    };
    ($name:literal, $about:literal, $flags:expr, $set_up:expr, $attack:expr) => {
        Load {
            name: $name,
            about: $about,
            flags: $flags,
            set_up: |it| Box::pin($set_up(it)),
            attack: |it| Box::pin($attack(it)),
        }
    };
}

#[rustfmt::skip]
pub const LOADS: &[Load] = &[
    load!("rewinds", "128 RewindSession of a session with many small keys", writes::set_up_many_keys, writes::rewinds),
    load!("forks", "128 ForkSession of a session with many small keys", writes::set_up_many_keys, writes::forks),
    load!("lists", "500 AppendEvents of 12 list_append to lists of 240 KB", writes::set_up_large_lists, writes::batches_of_list_appends),
    load!("replays", "4 AppendEvents with the ids of 300 events of 2 MiB", writes::set_up_replays, writes::replays),
    load!("operations-8", "8 AppendEvents of 100 list_append to lists of 110 KB", writes::set_up_operations, writes::operations::<8>),
    load!("operations-64", "the same, 64 in flight", writes::set_up_operations, writes::operations::<64>),
    load!("operations-256", "the same, 256 in flight", writes::set_up_operations, writes::operations::<256>),
    load!("operations-8-limited", "8 in flight, 100 appends a second for each caller", LIMITED, writes::set_up_operations, writes::operations::<8>),
    load!("operations-64-limited", "the same, 64 in flight", LIMITED, writes::set_up_operations, writes::operations::<64>),
    load!("operations-256-limited", "the same, 256 in flight", LIMITED, writes::set_up_operations, writes::operations::<256>),
    load!("cancelled-batches", "20 AppendEvents of 1,000 invocations with temp: state, given up while they wait", writes::set_up_session, writes::cancelled_batches),
    load!("unread-appends", "120 append streams with return_state of 3 MiB whose answers are not taken", streams::set_up_large_state, streams::unread_answers),
    load!("half-items", "300 append streams with an item of 4 MiB that does not end", strangers::nothing, streams::half_items),
    load!("append-streams", "80,000 append streams without an item", strangers::nothing, streams::empty_streams),
    load!("labels", "64 ListSessions by a label that none of 100,000 sessions has", reads::set_up_many_sessions, reads::lists_by_label),
    load!("named-users", "64 ListSessions of a caller whose policy names 100 users", reads::set_up_sessions_of_named_users, reads::lists_of_named_users),
    load!("authors", "64 ListEvents of an author without events, over 200,000 events", reads::set_up_many_events, reads::events_of_absent_author),
    load!("large-scopes", "64 GetSession of two scopes with many small keys", reads::set_up_large_scopes, reads::reads_of_large_scopes),
    load!("rewound", "64 GetSession of a session with 100,000 rewinds", reads::set_up_many_rewinds, reads::reads_of_a_rewound_session),
    load!("sweep", "2,000 sessions a second with a ttl of 1 s", strangers::nothing, expiry::short_lives),
    load!("health-watches", "80,000 health watches without a credential", strangers::nothing, strangers::health_watches),
    load!("health-checks", "80,000 health checks without a credential that do not end", strangers::nothing, strangers::health_checks),
    load!("unfinished-calls", "80,000 GetSession without a credential that do not end", strangers::nothing, strangers::unfinished_calls),
    load!("reflection", "80,000 reflection streams without a credential", strangers::nothing, strangers::reflection),
    load!("unread-reflection", "20,000 reflection streams without a credential whose answers are not taken", strangers::nothing, strangers::unread_reflection),
    load!("silent", "300 connections that send nothing", strangers::nothing, strangers::silent_connections),
    load!("silent-admin", "64 connections to the admin listener that send nothing", strangers::nothing, strangers::silent_admin_connections),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_name_means_one_load() {
        let names: HashSet<_> = LOADS.iter().map(|load| load.name).collect();
        assert_eq!(names.len(), LOADS.len());
    }
}
