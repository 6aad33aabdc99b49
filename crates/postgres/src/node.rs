//! What has state, as the first three columns of most tables name it.

pub(super) use crate::kernel::Node;
