//! Images, where they come from, and how clients share them.
