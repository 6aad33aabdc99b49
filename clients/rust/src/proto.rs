//! The generated wire contract of sessiond, for calls that this crate has no method for. The connection is
//! `SessiondSessionService::channel`.
#![allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    rustdoc::all,
    reason = "generated code; its documentation is the contract's own"
)]

/// `sessiond.v1`.
#[rustfmt::skip]
#[path = "proto/sessiond.v1.rs"]
pub mod v1;
