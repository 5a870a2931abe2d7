//! Ward's hierarchical clustering: the two clusters are joined whose union adds least to the sum of squared
//! distances from the centres. The tree is built by `kodama`.

use kodama::{Method, linkage};

/// A union of two nodes. Leaves have the numbers 0 to n-1, and the k-th union has n + k; parts come before wholes.
pub(super) type Union = (usize, usize);

/// The tree of n points, by the squares of their distances.
pub(super) fn ward(points: usize, squared_distance: impl Fn(usize, usize) -> f64) -> Vec<Union> {
    let pairs = (0..points).flat_map(|one| (one + 1..points).map(move |other| (one, other)));
    let mut distances: Vec<f64> =
        pairs.map(|(one, other)| squared_distance(one, other).sqrt()).collect();
    let tree = linkage(&mut distances, points, Method::Ward);
    tree.steps().iter().map(|step| (step.cluster1, step.cluster2)).collect()
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
        a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
    }

    fn by_linkage(points: &Points) -> BTreeSet<Vec<usize>> {
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
    fn it_is_the_tree_of_the_definition() {
        for case in 0..40 {
            let points = points(case, 2 + case as usize % 19, 1 + case as usize % 4);
            assert_eq!(by_linkage(&points), by_definition(&points), "case {case}");
        }
    }

    /// Ties everywhere: any tree is right, as long as it is one.
    #[test]
    fn equal_points_make_a_tree() {
        for count in 0..20 {
            assert_eq!(ward(count, |_, _| 0.0).len(), count.saturating_sub(1));
            assert_eq!(ward(count, |_, _| 1.0).len(), count.saturating_sub(1));
            by_linkage(&vec![vec![1.0]; count]);
        }
    }
}
