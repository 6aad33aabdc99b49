//! The wire contract of sessiond, for what this crate has no method for: see
//! [`SessiondSessionService::channel`](crate::SessiondSessionService::channel).
#![allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    rustdoc::all,
    reason = "generated code; its documentation is the contract's own"
)]

/// `sessiond.v1`.
#[rustfmt::skip]
#[path = "proto/sessiond.v1.rs"]
pub mod v1;
