//! Buffers that begin at a cache line: a vector load that crosses two lines costs two.

use std::ops::{Deref, DerefMut};

/// A cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "read as floats")] [f32; FLOATS]);

const FLOATS: usize = 16;

/// Floats in whole cache lines.
#[derive(Debug, Clone, Default)]
pub struct Aligned {
    lines: Vec<Line>,
    len: usize,
}

impl Aligned {
    /// So many zeros.
    pub fn zeros(len: usize) -> Self {
        Self { lines: vec![Line([0.0; FLOATS]); len.div_ceil(FLOATS)], len }
    }

    fn all(&self) -> &[f32] {
        // SAFETY: a line is 16 floats without padding, and the vector's lines lie side by side.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * FLOATS) }
    }

    fn all_mut(&mut self) -> &mut [f32] {
        let floats = self.lines.len() * FLOATS;
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), floats) }
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.all()[..self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        let len = self.len;
        &mut self.all_mut()[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_line() {
        for len in [0, 1, 15, 16, 17, 1000] {
            let mut buffer = Aligned::zeros(len);
            assert_eq!((buffer.as_ptr() as usize % 64, buffer.len()), (0, len));
            buffer.fill(1.0);
            assert_eq!(buffer.iter().sum::<f32>(), len as f32);
        }
    }
}
