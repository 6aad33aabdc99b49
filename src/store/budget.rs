//! Items and bytes that a page may still take.

/// The items and bytes that a page may still take. The first item always fits.
pub(crate) struct Budget {
    items: usize,
    bytes: usize,
    is_first: bool,
}

impl Budget {
    pub(crate) fn new(max_items: usize, max_bytes: usize) -> Self {
        Self { items: max_items, bytes: max_bytes, is_first: true }
    }

    /// Spends one item of `bytes`, if it fits. Returns whether it did.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let fits = self.is_first || (self.items > 0 && bytes <= self.bytes);
        if fits {
            self.items = self.items.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(bytes);
            self.is_first = false;
        }
        fits
    }
}
