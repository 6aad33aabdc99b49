//! Random histories: few names, so that everything happens to the same things.

use proptest::{collection::vec, option, prelude::*, sample::select};
use sessiond::domain::{
    delta::{Delta, Operation},
    json::{Amount, Json},
    precondition::{Condition, Precondition},
    scope::StateKey,
};

/// Where sessions are: the first user's three, of which one is hard to quote, another user's and another application's.
const SESSIONS: [&str; 5] = ["a/u/s", "a/u/t", "a/u/%_'\"é\u{1}", "a/v/s", "b/u/s"];

/// Where forks go, mostly to what is not there from the beginning.
const FORKS: [&str; 3] = ["t", "%_'\"é\u{1}", "s"];

/// The applications and the users.
pub const WIDE: [&str; 5] = ["a", "b", "a/u", "a/v", "b/u"];

/// Every key. The last letter tells what it mostly holds: a number, a list, an object; or anything.
pub const KEYS: [&str; 8] = ["n", "l", "K%", "app:n", "app:l", "app:", "user:n", "user:o"];

const NUMBERS: [&str; 4] = ["1", "-7", "2.50", "9223372036854775806"];
const LISTS: [&str; 3] = ["[]", "[1, 2]", "[[null], {}]"];
const OBJECTS: [&str; 3] = ["{}", r#"{ "a" : 1, "b":{"c":null} }"#, r#"{"a":1,"a":2}"#];
const OTHERS: [&str; 3] = ["null", "\"x\\u00e9\"", "false"];

/// One write, some seconds after the one before; clocks also go back.
#[derive(Clone, Debug)]
pub struct Step {
    pub wait_secs: i64,
    pub write: Write,
}

/// A write, by names and small numbers.
#[derive(Clone, Debug)]
pub enum Write {
    Create {
        at: &'static str,
        state: Vec<(StateKey, Json)>,
        label: Label,
        end: End,
        found: bool,
    },
    Update {
        at: &'static str,
        name: Option<&'static str>,
        label: Option<Label>,
        end: Option<End>,
    },
    Delete {
        at: &'static str,
    },
    Fork {
        at: &'static str,
        up_to: Option<u64>,
        to: &'static str,
    },
    Append {
        at: &'static str,
        bare: bool,
        events: Vec<Entry>,
        guard: Precondition,
        ask: Ask,
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
        ask: Ask,
    },
    Sweep,
    /// Closes the store and opens it again.
    Restart,
}

/// An event: what is not its id decides whether it is the same again.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u8,
    pub author: &'static str,
    pub turn: Option<&'static str>,
    pub event_secs: Option<i64>,
    pub delta: Delta,
    pub body: Option<&'static str>,
}

/// The value of the label `l`, if there is one.
pub type Label = Option<&'static str>;

/// Seconds until the session ceases to exist; `None`: never.
pub type End = Option<i64>;

/// A request's id and content.
pub type Ask = Option<(u8, u128)>;

/// Events that a history may append: what an id stands for is the same each time, so that repetitions are repetitions.
const EVENTS: usize = 24;

/// Histories of up to so many writes.
pub fn histories(longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let contents = vec(entry(), EVENTS);
    (contents, vec(step(), longest / 4..=longest)).prop_map(|(contents, steps)| {
        // There is something to write to from the beginning.
        let mut history = vec![first(SESSIONS[0]), first(SESSIONS[3])];
        history.extend(steps);
        for step in &mut history {
            let Write::Append { events, .. } = &mut step.write else { continue };
            for event in events {
                let (id, author) = (event.id, event.author);
                *event = Entry { id, ..contents[usize::from(id)].clone() };
                // Now and then another event comes under the same id.
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

/// Author of events whose content is not the one that their id stands for.
const OTHER: &str = "other";

/// An event's id, and whether its content is another.
fn picked() -> impl Strategy<Value = Entry> {
    let author = prop_oneof![30 => Just(""), 1 => Just(OTHER)];
    (0..EVENTS as u8, author).prop_map(|(id, author)| Entry {
        id,
        author,
        turn: None,
        event_secs: None,
        delta: Delta::default(),
        body: None,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let wait_secs = prop_oneof![8 => 0..5i64, 1 => -4..0i64, 1 => 20..200i64];
    (wait_secs, write()).prop_map(|(wait_secs, write)| Step { wait_secs, write })
}

fn write() -> impl Strategy<Value = Write> {
    let session = || {
        // Mostly the first, so that its log grows, and the one that it is forked to.
        prop_oneof![3 => Just(SESSIONS[0]), 2 => Just(SESSIONS[1]), 2 => select(&SESSIONS[..])]
    };
    let create = (session(), vec(pair(), 0..4), label(), end(), any::<bool>()).prop_map(
        |(at, mut state, label, end, found)| {
            state.sort_by(|a, b| a.0.cmp(&b.0));
            state.dedup_by(|a, b| a.0 == b.0);
            Write::Create { at, state, label, end, found }
        },
    );
    let name = option::of(select(&["", "name", "'"][..]));
    let update = (session(), name, option::of(label()), option::weighted(0.3, end()))
        .prop_map(|(at, name, label, end)| Write::Update { at, name, label, end });
    let fork = (session(), option::of(0..6u64), select(&FORKS[..]))
        .prop_map(|(at, up_to, to)| Write::Fork { at, up_to, to });
    let bare = proptest::bool::weighted(0.1);
    let append = (session(), bare, vec(picked(), 1..4), guard(), ask())
        .prop_map(|(at, bare, events, guard, ask)| Write::Append { at, bare, events, guard, ask });
    let rewind = (session(), 0..6u64, 0..10u8, guard())
        .prop_map(|(at, to, id, guard)| Write::Rewind { at, to, id, guard });
    let update_state =
        (select(&WIDE[..]), delta(), guard(), ask()).prop_map(|(at, mut delta, guard, ask)| {
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
        2 => create,
        1 => update,
        1 => session().prop_map(|at| Write::Delete { at }),
        3 => fork,
        14 => append,
        3 => rewind,
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

/// What a key holds.
enum Kind {
    Number,
    List,
    Object,
    Other,
}

/// Of this key, or of another one where it is not to fit.
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
    let guard = (option::of(0..8u64), vec((key(), condition), 0..2))
        .prop_map(|(expected_sequence, keys)| Precondition { expected_sequence, keys });
    prop_oneof![6 => Just(Precondition::default()), 1 => guard]
}

fn ask() -> impl Strategy<Value = Ask> {
    option::weighted(0.2, (0..3u8, 0..2u128))
}

fn label() -> impl Strategy<Value = Label> {
    option::of(select(&["1", "2"][..]))
}

fn end() -> impl Strategy<Value = End> {
    option::weighted(0.15, -1..60i64)
}

fn key() -> impl Strategy<Value = StateKey> {
    select(&KEYS[..]).prop_map(|name| StateKey::new(name).unwrap())
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
