//! How much a page still takes.

/// Items and bytes that are left of a page. The first item always fits.
pub(super) struct Room {
    items: usize,
    bytes: usize,
    empty: bool,
}

impl Room {
    pub(super) fn new(max_items: usize, max_bytes: usize) -> Self {
        Self { items: max_items, bytes: max_bytes, empty: true }
    }

    /// Makes room for one more item; whether there was enough.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let fits = self.empty || (self.items > 0 && bytes <= self.bytes);
        if fits {
            self.items = self.items.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(bytes);
            self.empty = false;
        }
        fits
    }
}
