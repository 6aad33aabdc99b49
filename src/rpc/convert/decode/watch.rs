//! Requests of the watch service.

use super::{
    address::scope,
    fields::{enumeration, form},
    request::decode,
};
use crate::{
    domain::{
        error::{Error, Reason},
        scope::Scope,
        token::{BadToken, Cursor},
    },
    engine::WatchFrom,
    proto::v1::{WatchRequest, WatchStart},
    rpc::convert::Form,
};

/// Watch: the scope and the start.
pub fn watch(request: WatchRequest) -> Result<(Scope, WatchFrom, Form), Error> {
    decode(|at| {
        let WatchRequest { scope: of, cursor, start, json_form } = request;
        let scope = scope(at.field("scope"), of);
        let start = enumeration(at.field("start"), start);
        let cursor = match Cursor::decode(&cursor) {
            _ if cursor.is_empty() => Ok(None),
            Ok(cursor) => Ok(Some(cursor)),
            Err(BadToken) => {
                let message = "The cursor is invalid. Send the last one received, or none.";
                Err(at.field("cursor").fault(Reason::BadCursor, message, &[]))
            }
        };
        let form = form(at.field("json_form"), json_form)?;
        let from = match (cursor?, start?) {
            (Some(cursor), _) => WatchFrom::Cursor(cursor),
            (None, WatchStart::Unspecified | WatchStart::Snapshot) => WatchFrom::Snapshot,
            (None, WatchStart::Beginning) => WatchFrom::Beginning,
            (None, WatchStart::Now) => WatchFrom::Now,
        };
        Ok((scope?, from, form))
    })
}
