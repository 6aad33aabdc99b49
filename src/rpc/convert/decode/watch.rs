//! Requests of the watch service.

use super::{
    address::scope,
    faults::{Path, decode},
    fields::{enumeration, form},
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

/// Watch: of which scope, from where.
pub fn watch(request: WatchRequest) -> Result<(Scope, WatchFrom, Form), Error> {
    decode(|faults| {
        let WatchRequest { scope: of, cursor, start, json_form } = request;
        let at = Path::REQUEST;
        let scope = scope(faults, at.field("scope"), of);
        let start = enumeration(faults, at.field("start"), start);
        let cursor = match Cursor::decode(&cursor) {
            _ if cursor.is_empty() => Ok(None),
            Ok(cursor) => Ok(Some(cursor)),
            Err(BadToken) => {
                let message = "The cursor is not one that this service made; use the last one received, or begin without one.";
                Err(faults.add(at.field("cursor"), Reason::BadCursor, message))
            }
        };
        let form = form(faults, at.field("json_form"), json_form)?;
        let from = match (cursor?, start?) {
            (Some(cursor), _) => WatchFrom::Cursor(cursor),
            (None, WatchStart::Unspecified | WatchStart::Snapshot) => WatchFrom::Snapshot,
            (None, WatchStart::Beginning) => WatchFrom::Beginning,
            (None, WatchStart::Now) => WatchFrom::Now,
        };
        Ok((scope?, from, form))
    })
}
