//! How evenly the work is spread over the clients.

/// Jain's fairness index of participation, and how many clients never took part.
///
/// It is given the final count of each client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    clients: u64,
    never: u64,
    sum: u128,
    sum_of_squares: u128,
}

impl Load {
    /// Records how often one client took part.
    pub fn record(&mut self, selections: u64) {
        self.record_many(selections, 1);
    }

    /// Records that so many clients took part so often each.
    pub fn record_many(&mut self, selections: u64, clients: u64) {
        let (selections, count) = (u128::from(selections), u128::from(clients));
        self.clients += clients;
        self.never += if selections == 0 { clients } else { 0 };
        self.sum += selections * count;
        self.sum_of_squares += selections * selections * count;
    }

    /// Jain's index: 1 if all clients took part equally often, 1/n if one did everything; NaN while
    /// no client took part.
    pub fn jain(&self) -> f64 {
        let sum = self.sum as f64;
        sum * sum / (self.clients as f64 * self.sum_of_squares as f64)
    }

    /// The number of clients that never took part.
    pub fn never_selected(&self) -> u64 {
        self.never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_has_its_extremes() {
        let jain = |counts: &[u64]| {
            let mut load = Load::default();
            for &count in counts {
                load.record(count);
            }
            (load.jain(), load.never_selected())
        };
        assert_eq!(jain(&[7, 7, 7, 7]), (1.0, 0));
        assert_eq!(jain(&[0, 9, 0, 0]), (0.25, 3));
        assert!((jain(&[1, 2, 3]).0 - 36.0 / 42.0).abs() < 1e-15);
    }
}
