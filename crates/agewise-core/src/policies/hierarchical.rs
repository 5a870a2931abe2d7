//! Ward's hierarchical clustering: the two clusters are joined whose union adds least to the sum of squared
//! distances from the centres.
//!
//! By chains of nearest neighbours, which find the same tree in n^2 steps instead of n^3: two clusters that are
//! nearest to each other can be joined at once, because no later union comes nearer to them than they are.

/// A union of two nodes. Leaves have the numbers 0 to n-1, and the k-th union has n + k; parts come before wholes.
pub(super) type Union = (usize, usize);

/// The tree of n points, by the squares of their distances.
pub(super) fn ward(points: usize, squared_distance: impl Fn(usize, usize) -> f64) -> Vec<Union> {
    let mut clusters = Clusters::new(points, squared_distance);
    let mut unions = Vec::with_capacity(points.saturating_sub(1));
    let mut chain: Vec<usize> = Vec::new();
    while clusters.places.len() > 1 {
        let Some(&last) = chain.last() else {
            chain.push(clusters.places[0]);
            continue;
        };
        let before = chain.len().checked_sub(2).map(|index| chain[index]);
        let nearest = clusters.nearest(last, before);
        match chain.iter().position(|&place| place == nearest) {
            None => chain.push(nearest),
            Some(index) if index + 2 == chain.len() => {
                chain.truncate(index);
                unions.push((clusters.nodes[nearest], clusters.nodes[last]));
                clusters.join(nearest, last, points + unions.len() - 1);
            }
            // Only where rounding has brought a union nearer than its parts were: from there on once more.
            Some(index) => chain.truncate(index + 1),
        }
    }
    unions
}

struct Clusters {
    points: usize,
    /// What a union of two places costs, twice: the square of the distance for single points.
    costs: Vec<f64>,
    /// The places that hold a cluster.
    places: Vec<usize>,
    /// The node and the number of points at each place.
    nodes: Vec<usize>,
    sizes: Vec<f64>,
}

impl Clusters {
    fn new(points: usize, squared_distance: impl Fn(usize, usize) -> f64) -> Self {
        let mut costs = vec![0.0; points * points];
        for one in 0..points {
            for other in 0..one {
                let cost = squared_distance(one, other);
                costs[one * points + other] = cost;
                costs[other * points + one] = cost;
            }
        }
        let numbers: Vec<usize> = (0..points).collect();
        Self { points, costs, places: numbers.clone(), nodes: numbers, sizes: vec![1.0; points] }
    }

    fn cost(&self, one: usize, other: usize) -> f64 {
        self.costs[one * self.points + other]
    }

    /// The nearest other place; of equally near ones the preferred one, then the first.
    fn nearest(&self, place: usize, preferred: Option<usize>) -> usize {
        let mut best = (preferred.unwrap_or(place), f64::INFINITY);
        if let Some(preferred) = preferred {
            best.1 = self.cost(place, preferred);
        }
        for &other in &self.places {
            if other != place && (self.cost(place, other) < best.1 || best.0 == place) {
                best = (other, self.cost(place, other));
            }
        }
        best.0
    }

    /// Puts the union of both at the second place (the formula of Lance and Williams).
    fn join(&mut self, gone: usize, kept: usize, node: usize) {
        let (a, b) = (self.sizes[gone], self.sizes[kept]);
        let between = self.cost(gone, kept);
        self.places.retain(|&place| place != gone);
        for &other in &self.places {
            if other == kept {
                continue;
            }
            let c = self.sizes[other];
            let (from_gone, from_kept) = (self.cost(gone, other), self.cost(kept, other));
            let cost = ((a + c) * from_gone + (b + c) * from_kept - c * between) / (a + b + c);
            self.costs[kept * self.points + other] = cost;
            self.costs[other * self.points + kept] = cost;
        }
        self.nodes[kept] = node;
        self.sizes[kept] = a + b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Draws, Seed, Stream};
    use std::collections::BTreeSet;

    type Points = Vec<Vec<f64>>;

    fn points(case: u64, count: usize, width: usize) -> Points {
        let draws = Draws::new(Seed(case), Stream::custom(1 << 20), 0);
        let number = |index: usize| draws.of(index as u64).unit();
        (0..count).map(|i| (0..width).map(|j| number(i * width + j)).collect()).collect()
    }

    fn square(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum()
    }

    fn by_chains(points: &Points) -> BTreeSet<Vec<usize>> {
        let unions = ward(points.len(), |a, b| square(&points[a], &points[b]));
        let mut nodes: Vec<Vec<usize>> = (0..points.len()).map(|leaf| vec![leaf]).collect();
        for (one, other) in unions {
            let mut union = [&nodes[one][..], &nodes[other]].concat();
            union.sort_unstable();
            nodes.push(union);
        }
        assert_eq!(nodes.len(), (2 * points.len()).saturating_sub(1));
        nodes.into_iter().collect()
    }

    /// From the definition: in each step all pairs, and for each the growth of the squared distances from the centre.
    fn by_definition(points: &Points) -> BTreeSet<Vec<usize>> {
        let spread = |cluster: &[usize]| {
            let count = cluster.len() as f64;
            let width = points[0].len();
            let centre: Vec<f64> = (0..width)
                .map(|i| cluster.iter().map(|&point| points[point][i]).sum::<f64>() / count)
                .collect();
            cluster.iter().map(|&point| square(&points[point], &centre)).sum::<f64>()
        };
        let mut clusters: Vec<Vec<usize>> = (0..points.len()).map(|leaf| vec![leaf]).collect();
        let mut seen: BTreeSet<Vec<usize>> = clusters.iter().cloned().collect();
        while clusters.len() > 1 {
            let mut best = (f64::INFINITY, 0, 0);
            for a in 0..clusters.len() {
                for b in 0..a {
                    let union = [&clusters[a][..], &clusters[b]].concat();
                    let growth = spread(&union) - spread(&clusters[a]) - spread(&clusters[b]);
                    if growth < best.0 {
                        best = (growth, a, b);
                    }
                }
            }
            let (_, a, b) = best;
            let mut union = [clusters.swap_remove(a), clusters.swap_remove(b)].concat();
            union.sort_unstable();
            seen.insert(union.clone());
            clusters.push(union);
        }
        seen
    }

    #[test]
    fn chains_find_the_tree_of_the_definition() {
        for case in 0..40 {
            let points = points(case, 2 + case as usize % 19, 1 + case as usize % 4);
            assert_eq!(by_chains(&points), by_definition(&points), "case {case}");
        }
    }

    /// Ties everywhere: any tree is right, as long as it is one.
    #[test]
    fn equal_points_make_a_tree() {
        for count in 0..20 {
            assert_eq!(ward(count, |_, _| 0.0).len(), count.saturating_sub(1));
            assert_eq!(ward(count, |_, _| 1.0).len(), count.saturating_sub(1));
            by_chains(&vec![vec![1.0]; count]);
        }
    }
}
