//! Every bound of the model, each with its unit and the reason for its size.

/// Bytes of an application name, a user id or a session id: enough for e-mail addresses, URLs and composed ids, while an index
/// entry of all three still fits into one page.
pub const ID_BYTES: usize = 512;

/// Bytes of an event id, an invocation id or a request id: three times a UUID with a prefix.
pub const SHORT_ID_BYTES: usize = 128;

/// Bytes of a `uid` that is sent: twice one of this store, so that those of other versions are answered as such.
pub const UID_BYTES: usize = 128;

/// Bytes of an author or a display name: these are read by people.
pub const NAME_BYTES: usize = 256;

/// Bytes of a branch: a dotted path of agent names, some ten levels deep.
pub const BRANCH_BYTES: usize = 1024;

/// Bytes of a state key with its prefix: the same as an id, because keys contain ids.
pub const KEY_BYTES: usize = 512;

/// Bytes of one value's text. Larger values belong into an artifact store; a scope holds four of these.
pub const VALUE_BYTES: usize = 256 * 1024;

/// Bytes of one scope's state: its keys without prefix, as they are written in JSON, and its values' text. Three full scopes fit into
/// one answer with their punctuation, unless the values are so small that the punctuation outweighs them; then a read has to name
/// its keys.
pub const SCOPE_BYTES: usize = 1024 * 1024;

/// Bytes of an event's body as text: several times a model's longest answer with its metadata.
pub const BODY_BYTES: usize = 1024 * 1024;

/// Bytes of a delta: its keys, values and operands, and again what it resolves to. No more than a scope holds.
pub const DELTA_BYTES: usize = 1024 * 1024;

/// Operations of one delta, and keys of one precondition: each costs the writer a read, and all requests wait for the writer.
pub const DELTA_OPERATIONS: usize = 1000;

/// Bytes that the operations of one delta may read or write in total, whichever is more, intermediate values included: an operation
/// copies the value that it changes, so a thousand of them on one large value would block the writer.
pub const OPERATION_BYTES: usize = 4 * 1024 * 1024;

/// Likewise, of all events of a batch, those of `temp:` keys on their own: 150 ms of the writer at worst, as measured.
pub const BATCH_OPERATION_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of work that count as one append: those that operations and conditions read or write, and states and stored events that are
/// answered. Some 100 µs of the writer, as an append takes.
pub const APPEND_BYTES: usize = 16 * 1024;

/// Bytes of values that the conditions of one request may compare: more than the three scopes hold, so that only a request that
/// names a large key repeatedly exceeds it.
pub const PRECONDITION_BYTES: usize = 4 * 1024 * 1024;

/// Events of one batch, which is one commit that other requests wait for.
pub const BATCH_EVENTS: usize = 1000;

/// Bytes of a batch's bodies and deltas, as sent and as resolved: what fits into one message, also on its way back.
pub const BATCH_BYTES: usize = 3 * 1024 * 1024;

/// Levels of nested arrays and objects; `[[1]]` has two levels.
///
/// Deep enough for what people write, and low enough that recursion over a value cannot exhaust a thread's stack and that
/// serde_json (127) and the agent frameworks read the answers.
pub const MAX_NESTING: usize = 100;

/// Labels of a session: enough to filter by, too few to store data in.
pub const LABELS: usize = 64;

/// Bytes of a label's key, and of its value: the field's usual size, as in Kubernetes.
pub const LABEL_BYTES: usize = 63;

/// Bytes of a template: the longest instruction that a model would read.
pub const TEMPLATE_BYTES: usize = 256 * 1024;

/// Items of a page if the request does not say.
pub const PAGE_ITEMS_DEFAULT: usize = 100;

/// Items of a page at most; a request for more gets this many.
pub const PAGE_ITEMS: usize = 1000;

/// Rows that a read looks at, after which its page ends with its token, perhaps empty: some ten milliseconds, so that nobody waits long
/// for a read of others, however little passes their filter.
pub const PAGE_SCANNED: usize = 2000;

/// Milliseconds after which such a page ends as well: a safety net for slow disks. Rows that pass do not count, of which a page has few.
pub const PAGE_MILLIS: u64 = 20;

/// Bytes of a message, received or sent: what every gRPC client receives by default.
pub const MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of an id that a message quotes: enough to recognise it, too few to fill the status.
pub const QUOTED_BYTES: usize = 64;

/// Field violations, and items of a list in metadata, that a status names before it says "and N more": the whole status has to
/// stay below the 8 KiB of trailers that clients take.
pub const VIOLATIONS: usize = 20;
