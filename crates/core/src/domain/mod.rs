//! The model: ids, scopes, deltas, events, sessions and their rules.
//!
//! Everything here is pure: no waiting, no clock, no randomness, no wire, no database. Every store and every test applies the
//! same rules.

/// Declares an enum whose values have names for programs.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[$note:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$note])* $value,)*
        }

        impl $type {
            /// In the order in which they are declared.
            pub const ALL: [Self; [$(Self::$value),*].len()] = [$(Self::$value),*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub mod bearer;
pub mod delta;
pub mod error;
pub mod event;
pub mod field;
pub mod id;
pub mod json;
pub mod limits;
pub mod page;
pub mod permission;
pub mod precondition;
pub mod prelude;
pub mod reason;
pub mod scope;
pub mod session;
pub mod template;
pub mod time;
pub mod token;
pub mod trace;
pub mod visible;

/// Number of an event within its session: 1, 2, 3, … in commit order; 0 is the session as it was created.
pub type Sequence = u64;

/// Counter of a scope. For a session it is the last [`Sequence`].
pub type Version = u64;
