//! How much the log is certain to take without asking the disk for more room.
//!
//! A commit gets its place in the order only where its group has room: what has its place cannot be
//! taken back. The bounds are those of frames that begin a block, so the log itself may find a
//! little more.

use crate::wal::format::{FRAME_HEADER_BYTES, frame_bytes};

/// Bytes for the groups to come: in the segment that is written, and in the one that is ready to
/// follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRoom {
    /// From a block boundary on, as is `ahead`; without what must follow a group.
    here: usize,
    ahead: usize,
    block_bytes: usize,
}

impl LogRoom {
    pub(crate) fn new(here: usize, ahead: usize, block_bytes: usize) -> LogRoom {
        LogRoom { here, ahead, block_bytes }
    }

    /// Most payload bytes of the next group.
    pub(crate) fn group_bytes_max(&self) -> usize {
        let blocks = self.here.max(self.ahead) / self.block_bytes;
        (blocks * self.block_bytes).saturating_sub(FRAME_HEADER_BYTES)
    }

    /// What is left at least behind a group that was taken.
    pub(crate) fn after_group(self, payload_bytes: usize) -> LogRoom {
        let bytes = frame_bytes(payload_bytes, self.block_bytes);
        match bytes <= self.here {
            true => LogRoom { here: self.here - bytes, ..self },
            false => LogRoom { here: self.ahead.saturating_sub(bytes), ahead: 0, ..self },
        }
    }

    /// What is left at least behind a seal.
    pub(crate) fn after_seal(self) -> LogRoom {
        LogRoom { here: self.here.saturating_sub(self.block_bytes), ..self }
    }

    /// As long as the log goes on in another segment, and nobody knows how large it is.
    pub(crate) fn none(self) -> LogRoom {
        LogRoom { here: 0, ahead: 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_the_most_bytes_is_taken_and_one_more_is_not() {
        let fits = |room: &LogRoom, bytes| frame_bytes(bytes, 512) <= room.here.max(room.ahead);
        for (here, ahead) in [(512, 0), (1024, 0), (1024, 5120), (0, 512), (700, 600)] {
            let room = LogRoom::new(here, ahead, 512);
            let most = room.group_bytes_max();
            assert!(fits(&room, most) && !fits(&room, most + 1), "{room:?}: {most}");
        }
        assert_eq!(LogRoom::new(511, 0, 512).group_bytes_max(), 0);
    }

    #[test]
    fn what_does_not_fit_here_goes_ahead() {
        let room = LogRoom::new(1024, 4096, 512);
        assert_eq!(room.after_group(100), LogRoom::new(512, 4096, 512));
        assert_eq!(room.after_group(1000), LogRoom::new(4096 - 1536, 0, 512));
        assert_eq!(room.after_seal(), LogRoom::new(512, 4096, 512));
        assert_eq!(room.none().group_bytes_max(), 0);
    }
}
