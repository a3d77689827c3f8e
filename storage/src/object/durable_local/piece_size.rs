//! How much of a large object is synced at once. Pure.

use std::time::Duration;

/// While nobody creates anything, so much.
pub(super) const UNSYNCED_BYTES_MAX: usize = 2 * 1024 * 1024;
const UNSYNCED_BYTES_MIN: usize = 128 * 1024;
/// A larger size is tried after so many pieces, for as long as none turned out too large.
const PIECES_UNTIL_TRIED: u32 = 16;

/// An fsync beside creates holds them up for about as long as it takes. So while they come it may take a
/// quarter of what the newest create took; but where most of that time is the device's own for any
/// fsync, however small, a quarter more than a small piece takes.
#[derive(Debug)]
pub(super) struct PieceSize {
    bytes: usize,
    /// The shortest time of a piece of the least size; it fades, in case the device gets slower.
    least_took: Option<Duration>,
    pieces_until_tried: u32,
}

impl Default for PieceSize {
    fn default() -> Self {
        Self { bytes: UNSYNCED_BYTES_MIN, least_took: None, pieces_until_tried: PIECES_UNTIL_TRIED }
    }
}

impl PieceSize {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Learns how long it took to write and sync a piece of this size.
    pub(super) fn learn(&mut self, took: Duration, create_took: Duration) {
        if self.bytes == UNSYNCED_BYTES_MIN {
            let faded = self.least_took.map_or(took, |least| least * 65 / 64);
            self.least_took = Some(took.min(faded));
        }
        let took_max = (create_took / 4).max(self.least_took.unwrap_or_default() * 5 / 4);
        let next = if took > took_max {
            self.bytes / 2
        } else if self.pieces_until_tried == 0 {
            self.bytes * 2
        } else {
            self.pieces_until_tried -= 1;
            return;
        };
        self.bytes = next.clamp(UNSYNCED_BYTES_MIN, UNSYNCED_BYTES_MAX);
        self.pieces_until_tried = PIECES_UNTIL_TRIED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size after a while on a device that needs so long for an fsync and for each 128 KiB.
    fn settled(fsync_micros: u64, piece_micros: u64, create_micros: u64) -> usize {
        let mut size = PieceSize::default();
        let mut counts = [0; 5];
        for _ in 0..1000 {
            let pieces = size.bytes() / UNSYNCED_BYTES_MIN;
            counts[pieces.ilog2() as usize] += 1;
            let took = fsync_micros + piece_micros * pieces as u64;
            size.learn(Duration::from_micros(took), Duration::from_micros(create_micros));
        }
        let usual = (0..5).max_by_key(|index| counts[*index]).expect("there are some");
        UNSYNCED_BYTES_MIN << usual
    }

    #[test]
    fn a_piece_takes_a_quarter_of_a_create_at_most() {
        assert_eq!(settled(300, 150, 1500), 128 * 1024);
        assert_eq!(settled(300, 150, 4000), 512 * 1024);
        assert_eq!(settled(300, 150, 60_000), UNSYNCED_BYTES_MAX);
    }

    #[test]
    fn where_an_fsync_alone_takes_long_pieces_are_larger() {
        assert_eq!(settled(10_000, 800, 21_000), 512 * 1024);
        assert_eq!(settled(10_000, 100, 21_000), UNSYNCED_BYTES_MAX);
    }
}
