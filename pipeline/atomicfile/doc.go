// Package atomicfile replaces small files whole: whoever looks, at any moment and after a crash at any moment, finds the old
// content or the new. It imports nothing of this project and keeps no state.
//
// # Not obvious
//
//   - The mode bits are set and looked at again before the first byte of payload is written, so that a secret is never readable
//     by others, not even on a file system that ignores modes (http-face.md, "Serve state file"). Windows has no mode bits: there
//     they are set and not looked at.
//   - A file is durable only once its folder is: both are synced, and so is the folder of each folder that was made. Windows
//     cannot sync a folder.
//   - A writer that is killed leaves its temporary file behind. It does no harm; Sweep removes it.
//   - rename(2) does nothing if both names are links to one file, and keeps both. A crash between the backup and the replacement
//     leads to that.
package atomicfile
