//! The seeds of the rounds. The coordinator begins with a secret and hashes it again and again; the last hash, the anchor, is told to every
//! client when it enrols, and the rounds take the hashes backwards. So the seed of a round cannot be known from those before it, the
//! coordinator cannot choose it, and a client checks it with one hash per round.
//!
//! A chain is for [`LINKS`] rounds. While one is used, the anchor of the next one is announced.

use agewise_core::Seed;
use sha2::{Digest, Sha256};

/// Rounds of one chain.
pub const LINKS: u64 = 1 << 16;
/// Links between two that are kept.
const STRIDE: u64 = 1 << 8;

/// The seed of a round, or an anchor.
pub type RoundSeed = [u8; 32];

/// The seed from which all of the coordinator's own random numbers of a round follow, and those of training.
pub fn narrow(seed: &RoundSeed) -> Seed {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&seed[..8]);
    Seed(u64::from_le_bytes(bytes))
}

/// One link further back.
fn hash(seed: &RoundSeed) -> RoundSeed {
    let mut hash = Sha256::new();
    hash.update(b"agewise seed chain");
    hash.update(seed);
    hash.finalize().into()
}

fn back(mut seed: RoundSeed, links: u64) -> RoundSeed {
    for _ in 0..links {
        seed = hash(&seed);
    }
    seed
}

/// The chain in which a round is, and how many links its seed is from the anchor.
fn place(round: u64) -> (u64, u64) {
    (round / LINKS, round % LINKS + 1)
}

/// The seeds of a run, made from its secret.
#[derive(Clone)]
pub struct SeedChains {
    secret: [u8; 32],
    chain: u64,
    /// The chain's hashes that are a multiple of [`STRIDE`] links from the anchor, beginning with it.
    kept: Vec<RoundSeed>,
    next_anchor: RoundSeed,
}

impl SeedChains {
    /// From the secret of the run.
    pub fn new(secret: [u8; 32]) -> Self {
        let mut chains = Self { secret, chain: 0, kept: Vec::new(), next_anchor: [0; 32] };
        chains.turn_to(0);
        chains
    }

    fn end(&self, chain: u64) -> RoundSeed {
        let mut hash = Sha256::new();
        hash.update(b"agewise seed secret");
        hash.update(self.secret);
        hash.update(chain.to_le_bytes());
        hash.finalize().into()
    }

    fn turn_to(&mut self, chain: u64) {
        let mut kept = vec![self.end(chain)];
        for _ in 0..LINKS / STRIDE {
            kept.push(back(kept[kept.len() - 1], STRIDE));
        }
        kept.reverse();
        self.kept = kept;
        self.chain = chain;
        self.next_anchor = back(self.end(chain + 1), LINKS);
    }

    /// The seed of a round.
    pub fn seed(&mut self, round: u64) -> RoundSeed {
        let (chain, link) = self.turn(round);
        debug_assert_eq!(chain, self.chain);
        let above = link.div_ceil(STRIDE);
        back(self.kept[above as usize], above * STRIDE - link)
    }

    /// The commitment that clients are told in a round: the anchors of its chain and of the next one.
    pub fn commitment(&mut self, round: u64) -> Commitment {
        let (chain, _) = self.turn(round);
        Commitment { chain, anchor: self.kept[0], next_anchor: self.next_anchor }
    }

    fn turn(&mut self, round: u64) -> (u64, u64) {
        let (chain, link) = place(round);
        if chain != self.chain {
            self.turn_to(chain);
        }
        (chain, link)
    }
}

impl std::fmt::Debug for SeedChains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeedChains").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// A commitment of the coordinator to its seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commitment {
    /// Which chain, from 0.
    pub chain: u64,
    /// Its anchor.
    pub anchor: RoundSeed,
    /// The anchor of the chain behind it.
    pub next_anchor: RoundSeed,
}

/// Checks seeds against a commitment, and against each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedCheck {
    commitment: Commitment,
    /// The last seed that was right, as links from the anchor.
    last: (u64, RoundSeed),
}

/// How a coordinator has broken its commitment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeedViolation {
    /// The seed of a round is not the one that was committed to.
    Seed,
    /// It says now that it had committed to something else.
    Commitment,
}

impl SeedCheck {
    /// Begins with the commitment of the enrolment.
    pub fn new(commitment: Commitment) -> Self {
        Self { commitment, last: (0, commitment.anchor) }
    }

    /// The commitment that later seeds are checked against.
    pub fn commitment(&self) -> Commitment {
        self.commitment
    }

    /// The commitment is told again, perhaps in a later chain.
    pub fn told(&mut self, told: Commitment) -> Result<(), SeedViolation> {
        let known = self.commitment;
        if told.chain == known.chain + 1 {
            if told.anchor != known.next_anchor {
                return Err(SeedViolation::Commitment);
            }
            *self = Self::new(told);
            return Ok(());
        }
        if told.chain > known.chain {
            // Away for more than a chain: there is nothing to compare with.
            *self = Self::new(told);
            return Ok(());
        }
        if told == known { Ok(()) } else { Err(SeedViolation::Commitment) }
    }

    /// A seed is announced, in the chain of the commitment.
    pub fn seed(&mut self, round: u64, seed: &RoundSeed) -> Result<(), SeedViolation> {
        let (chain, link) = place(round);
        let (last_link, last) = self.last;
        if chain != self.commitment.chain {
            return Err(SeedViolation::Seed);
        }
        let (links, known) = if link >= last_link {
            (link - last_link, last)
        } else {
            (link, self.commitment.anchor)
        };
        if back(*seed, links) != known {
            return Err(SeedViolation::Seed);
        }
        self.last = (link, *seed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_hash_to_each_other_and_to_the_anchor() {
        let mut chains = SeedChains::new([5; 32]);
        let commitment = chains.commitment(0);
        assert_eq!(hash(&chains.seed(0)), commitment.anchor);
        for round in [1, 2, 254, 255, 256, 257, 65_534, 65_535] {
            assert_eq!(hash(&chains.seed(round)), chains.seed(round - 1), "{round}");
        }
        // The last seed of a chain is its end, and the next chain begins at the anchor that was told.
        assert_eq!(hash(&chains.seed(LINKS)), commitment.next_anchor);
        assert_eq!(chains.commitment(LINKS).anchor, commitment.next_anchor);
        assert_eq!(chains.commitment(LINKS - 1), commitment);
    }

    #[test]
    fn a_client_notices_another_seed() {
        let mut chains = SeedChains::new([5; 32]);
        let mut check = SeedCheck::new(chains.commitment(0));
        for round in [0, 1, 1, 5, 300, 2, LINKS - 1] {
            let seed = chains.seed(round);
            assert_eq!(check.seed(round, &seed), Ok(()), "{round}");
            let mut other = seed;
            other[31] ^= 1;
            assert_eq!(check.seed(round, &other), Err(SeedViolation::Seed));
        }
        // A seed in the wrong round, and one of a chain that was not told.
        assert_eq!(check.seed(4, &chains.seed(5)), Err(SeedViolation::Seed));
        assert_eq!(check.seed(LINKS, &chains.seed(LINKS)), Err(SeedViolation::Seed));
    }

    #[test]
    fn a_client_notices_another_commitment() {
        let mut chains = SeedChains::new([5; 32]);
        let first = chains.commitment(0);
        let mut check = SeedCheck::new(first);
        assert_eq!(check.told(first), Ok(()));
        let other = SeedChains::new([6; 32]).commitment(0);
        assert_eq!(check.told(other), Err(SeedViolation::Commitment));
        let next = chains.commitment(LINKS);
        assert_eq!(
            check.told(Commitment { anchor: [0; 32], ..next }),
            Err(SeedViolation::Commitment)
        );
        assert_eq!(check.told(next), Ok(()));
        assert_eq!(check.seed(LINKS + 3, &chains.seed(LINKS + 3)), Ok(()));
        assert_eq!(check.told(first), Err(SeedViolation::Commitment));
    }
}
