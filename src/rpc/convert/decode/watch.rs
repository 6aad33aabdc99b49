//! Requests of the watch service.

use super::{
    address::scope,
    faults::{Path, decode},
    fields::{enumeration, form},
};
use crate::{
    domain::{error::Error, scope::Scope},
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
        let form = form(faults, at.field("json_form"), json_form)?;
        let from = match start? {
            _ if !cursor.is_empty() => WatchFrom::Cursor(cursor),
            WatchStart::Unspecified | WatchStart::Snapshot => WatchFrom::Snapshot,
            WatchStart::Beginning => WatchFrom::Beginning,
            WatchStart::Now => WatchFrom::Now,
        };
        Ok((scope?, from, form))
    })
}
