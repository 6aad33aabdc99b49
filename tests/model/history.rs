//! Random histories: few names, so that writes meet each other.

use proptest::{collection::vec, option, prelude::*, sample::select};
use sessiond::domain::{
    delta::{Delta, Operation},
    json::{Amount, Json},
    precondition::{Condition, Precondition},
    scope::StateKey,
};

/// The addresses of sessions: one user's, of which one is hard to quote, another user's and another application's.
const SESSIONS: [&str; 6] = ["a/u/s", "a/u/t", "a/u/f", "a/u/%_'\"é\u{1}", "a/v/s", "b/u/s"];

/// Targets of forks, mostly of sessions that do not exist from the beginning.
const FORKS: [&str; 4] = ["t", "f", "%_'\"é\u{1}", "s"];

/// The applications and the users.
pub const SHARED: [&str; 5] = ["a", "b", "a/u", "a/v", "b/u"];

/// Every key. The last letter tells the type that it mostly holds: a number, a list, an object, or anything.
pub const KEYS: [&str; 8] = ["n", "l", "K%", "app:n", "app:l", "app:", "user:n", "user:o"];

const NUMBERS: [&str; 4] = ["1", "-7", "2.50", "9223372036854775806"];
const LISTS: [&str; 3] = ["[]", "[1, 2]", "[[null], {}]"];
const OBJECTS: [&str; 3] = ["{}", r#"{ "a" : 1, "b":{"c":null} }"#, r#"{"a":1,"a":2}"#];
const OTHERS: [&str; 3] = ["null", "\"x\\u00e9\"", "false"];

/// One write, some seconds after the one before. Clocks also go back.
#[derive(Clone, Debug)]
pub struct Step {
    pub wait_secs: i64,
    pub write: Write,
}

#[derive(Clone, Debug)]
pub enum Write {
    Create {
        at: &'static str,
        state: Vec<(StateKey, Json)>,
        label: Label,
        end: Option<End>,
        found: bool,
    },
    Update {
        at: &'static str,
        name: Option<&'static str>,
        label: Option<Label>,
        end: Option<Option<End>>,
        guard: Precondition,
    },
    Delete {
        at: &'static str,
        guard: Precondition,
        missing: bool,
    },
    Fork {
        at: &'static str,
        up_to: Option<u64>,
        to: &'static str,
        guard: Precondition,
    },
    Append {
        at: &'static str,
        /// Answer with the state.
        state: bool,
        events: Vec<Entry>,
        guard: Precondition,
        ask: Option<Ask>,
    },
    Rewind {
        at: &'static str,
        to: u64,
        id: u8,
        guard: Precondition,
    },
    UpdateState {
        at: &'static str,
        delta: Delta,
        guard: Precondition,
        ask: Option<Ask>,
    },
    Sweep,
    /// Closes the store and opens it again.
    Restart,
}

/// An event. Everything but its id is its content.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u8,
    pub author: &'static str,
    pub turn: Option<&'static str>,
    pub event_secs: Option<i64>,
    pub delta: Delta,
    pub body: Option<&'static str>,
    /// It is to be refused unless it is a replay.
    pub refused: bool,
}

/// The value of the label `l`, if there is one.
pub type Label = Option<&'static str>;

/// When the session ceases to exist, in seconds.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// At an instant, which may lie in the past.
    At(i64),
    After(i64),
}

/// A request's id and content.
pub type Ask = (u8, u128);

/// Different events of a history. An id has the same content each time, so that repetitions are replays.
const EVENTS: usize = 20;

/// Histories of at most `longest` writes, after three creations.
pub fn histories(longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let contents = vec(entry(), EVENTS);
    (contents, vec(step(), longest / 4..=longest)).prop_map(|(contents, steps)| {
        let mut history: Vec<Step> = [0, 1, 4].map(|at| first(SESSIONS[at])).into();
        history.extend(steps);
        for step in &mut history {
            let Write::Append { events, .. } = &mut step.write else { continue };
            for event in events {
                let (id, author) = (event.id, event.author);
                let refused = event.refused;
                *event = Entry { id, refused, ..contents[usize::from(id)].clone() };
                // Sometimes the same id has other content.
                if author == OTHER {
                    event.author = OTHER;
                }
            }
        }
        history
    })
}

fn first(at: &'static str) -> Step {
    let write = Write::Create { at, state: Vec::new(), label: None, end: None, found: false };
    Step { wait_secs: 1, write }
}

/// Author of events whose content is not that of their id.
const OTHER: &str = "other";

/// An event's id, and whether its content is another.
fn picked(ids: u8) -> impl Strategy<Value = Entry> {
    let author = prop_oneof![30 => Just(""), 1 => Just(OTHER)];
    (0..ids, author, proptest::bool::weighted(0.02)).prop_map(|(id, author, refused)| Entry {
        id,
        author,
        turn: None,
        event_secs: None,
        delta: Delta::default(),
        body: None,
        refused,
    })
}

/// The events of an append: mostly few, sometimes many with the same id twice.
fn batch() -> impl Strategy<Value = Vec<Entry>> {
    prop_oneof![7 => vec(picked(EVENTS as u8), 1..4), 1 => vec(picked(9), 4..12)]
}

fn step() -> impl Strategy<Value = Step> {
    let wait_secs = prop_oneof![8 => 0..5i64, 1 => -4..0i64, 1 => 20..200i64];
    (wait_secs, write()).prop_map(|(wait_secs, write)| Step { wait_secs, write })
}

fn write() -> impl Strategy<Value = Write> {
    let session = || {
        // Mostly the first, so that its log grows, and the one that it is forked to.
        prop_oneof![5 => Just(SESSIONS[0]), 3 => Just(SESSIONS[1]), 2 => select(&SESSIONS[..])]
    };
    let create = (session(), vec(initial(), 0..4), label(), end(), any::<bool>()).prop_map(
        |(at, mut state, label, end, found)| {
            state.sort_by(|a, b| a.0.cmp(&b.0));
            state.dedup_by(|a, b| a.0 == b.0);
            Write::Create { at, state, label, end, found }
        },
    );
    let name = option::of(select(&["", "name", "'"][..]));
    let update = (session(), name, option::of(label()), option::weighted(0.3, end()), guard())
        .prop_map(|(at, name, label, end, guard)| Write::Update { at, name, label, end, guard });
    let fork = (session(), option::of(sequence()), select(&FORKS[..]), guard())
        .prop_map(|(at, up_to, to, guard)| Write::Fork { at, up_to, to, guard });
    let delete = (session(), guard(), any::<bool>())
        .prop_map(|(at, guard, missing)| Write::Delete { at, guard, missing });
    let append = (session(), any::<bool>(), batch(), guard(), ask()).prop_map(
        |(at, state, events, guard, ask)| Write::Append { at, state, events, guard, ask },
    );
    let rewind = (session(), sequence(), 0..10u8, guard())
        .prop_map(|(at, to, id, guard)| Write::Rewind { at, to, id, guard });
    let update_state =
        (select(&SHARED[..]), delta(), guard(), ask()).prop_map(|(at, mut delta, guard, ask)| {
            // Only what the scope may change.
            let user = at.contains('/');
            let seen = |key: &StateKey| {
                key.as_str().starts_with("app:") || user && key.as_str().starts_with("user:")
            };
            delta.set.retain(|(key, _)| seen(key));
            delta.remove.retain(seen);
            delta.operations.retain(|(key, _)| seen(key));
            let mut guard = guard;
            guard.keys.retain(|(key, _)| seen(key));
            Write::UpdateState { at, delta, guard, ask }
        });
    prop_oneof![
        4 => create,
        1 => update,
        2 => delete,
        4 => fork,
        14 => append,
        4 => rewind,
        3 => update_state,
        1 => Just(Write::Sweep),
        1 => Just(Write::Restart),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    (
        select(&["x", "y"][..]),
        option::of(select(&["1", "2"][..])),
        option::weighted(0.3, -3..3i64),
        delta(),
        option::of(select(&["{}", "{ \"n\" : 1.0 }", "{\"n\":1}"][..])),
    )
        .prop_map(|(author, turn, event_secs, delta, body)| Entry {
            id: 0,
            author,
            turn,
            event_secs,
            delta,
            body,
            refused: false,
        })
}

fn delta() -> impl Strategy<Value = Delta> {
    let set = vec(pair(), 0..3).prop_map(|mut set| {
        set.sort_by(|a, b| a.0.cmp(&b.0));
        set.dedup_by(|a, b| a.0 == b.0);
        set
    });
    let parts = (set, vec(key(), 0..2), vec(operation(), 0..2));
    parts.prop_map(|(set, remove, operations)| Delta { set, remove, operations })
}

/// An operation that mostly fits what the key holds.
fn operation() -> impl Strategy<Value = (StateKey, Operation)> {
    let default = pair().prop_map(|(key, value)| (key, Operation::SetIfAbsent(value)));
    let fitting = (key(), fits(), -2..3i64, 0..3usize).prop_map(|(key, fits, by, at)| {
        let operation = match kind(&key, fits) {
            Kind::Number if by == 0 => Operation::Increment(Amount::Fraction(0.5)),
            Kind::List => {
                Operation::ListAppend { values: json(LISTS[at]), max_length: by.max(0) as usize }
            }
            Kind::Object => Operation::MergePatch(json(OBJECTS[at])),
            Kind::Number | Kind::Other => Operation::Increment(Amount::Whole(by)),
        };
        (key, operation)
    });
    prop_oneof![1 => default, 3 => fitting]
}

/// The type of a key's values.
enum Kind {
    Number,
    List,
    Object,
    Other,
}

/// Of this key, or another type where it is not to fit.
fn kind(key: &StateKey, fits: bool) -> Kind {
    match (key.as_str().as_bytes().last(), fits) {
        (Some(b'n'), true) | (Some(b'o'), false) => Kind::Number,
        (Some(b'l'), true) | (Some(b'n'), false) => Kind::List,
        (Some(b'o'), true) | (Some(b'l'), false) => Kind::Object,
        _ => Kind::Other,
    }
}

fn fits() -> impl Strategy<Value = bool> {
    proptest::bool::weighted(0.97)
}

fn guard() -> impl Strategy<Value = Precondition> {
    let condition = prop_oneof![
        any::<bool>().prop_map(Condition::Exists),
        (0..6u64).prop_map(Condition::Version),
        pair().prop_map(|(_, value)| Condition::Value(value)),
    ];
    let guard = (option::of(0..8u64), vec((key(), condition), 0..2)).prop_map(
        |(expected_sequence, keys)| Precondition {
            expected_sequence,
            keys,
            ..Precondition::default()
        },
    );
    prop_oneof![5 => Just(Precondition::default()), 1 => guard]
}

fn ask() -> impl Strategy<Value = Option<Ask>> {
    option::weighted(0.3, (0..3u8, 0..2u128))
}

/// Of an event, mostly one that is there.
fn sequence() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..4u64, 1 => 0..15u64]
}

fn label() -> impl Strategy<Value = Label> {
    option::of(select(&["1", "2"][..]))
}

fn end() -> impl Strategy<Value = Option<End>> {
    let end = prop_oneof![(-1..60i64).prop_map(End::At), (1..60i64).prop_map(End::After)];
    option::weighted(0.15, end)
}

fn key() -> impl Strategy<Value = StateKey> {
    select(&KEYS[..]).prop_map(|name| StateKey::new(name).unwrap())
}

/// A key of the initial state, which may be one that is not stored.
fn initial() -> impl Strategy<Value = (StateKey, Json)> {
    prop_oneof![9 => pair(), 1 => Just((StateKey::new("temp:x").unwrap(), json("1")))]
}

/// A key with a value that mostly fits it.
fn pair() -> impl Strategy<Value = (StateKey, Json)> {
    (key(), fits(), 0..12usize).prop_map(|(key, fits, at)| {
        let value = match kind(&key, fits) {
            Kind::Number => NUMBERS[at % 4],
            Kind::List => LISTS[at % 3],
            Kind::Object => OBJECTS[at % 3],
            Kind::Other => OTHERS[at % 3],
        };
        (key, json(value))
    })
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}
