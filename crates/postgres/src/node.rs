//! What has state, as the first three columns of most tables name it.

pub(super) use sessiond_core::read::Node;
