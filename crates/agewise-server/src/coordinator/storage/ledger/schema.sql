-- The ledger of a run. Rows are added and finished, never taken back: what is in here was promised to a client.
-- Rounds count from 0. The age of a client in round t is t - waiting_since.

CREATE TABLE IF NOT EXISTS run (
  key   TEXT PRIMARY KEY,                      -- schema, id (16 bytes), what cannot change: policy, seed, anchor, model, ...; last-failure;
                                               -- draws-of-version-1: rounds before this one may have them, in a ledger that was migrated;
                                               -- and policy-state: what the policy keeps, 64-bit floats, of the last round that is over
  value BLOB NOT NULL
);

CREATE TABLE IF NOT EXISTS settings (
  number INTEGER PRIMARY KEY,                  -- from 0; another start with other settings makes another one
  config TEXT NOT NULL                         -- TOML
);

CREATE TABLE IF NOT EXISTS clients (
  client        INTEGER PRIMARY KEY,           -- by order of enrolment, from 0
  name          TEXT NOT NULL UNIQUE,
  key           BLOB NOT NULL,                 -- its public key, 32 bytes
  samples       INTEGER NOT NULL,
  enrolled      INTEGER NOT NULL,              -- the round in which it came
  settings      INTEGER NOT NULL,              -- under which it came
  first_waiting INTEGER NOT NULL,              -- what waiting_since was then
  waiting_since INTEGER NOT NULL,              -- negative for a first age
  revoked       INTEGER NOT NULL DEFAULT 0,    -- 1: revoked by an operator
  revoked_from  INTEGER,                       -- the first round that begins without it
  reports       INTEGER NOT NULL DEFAULT 0,    -- accepted
  late          INTEGER NOT NULL DEFAULT 0,
  missing       INTEGER NOT NULL DEFAULT 0,
  refused       INTEGER NOT NULL DEFAULT 0,
  failures      INTEGER NOT NULL DEFAULT 0,    -- in a row, since it was last credited
  eligible_from INTEGER NOT NULL DEFAULT 0     -- the first round in which it may take part again after them
);
CREATE INDEX IF NOT EXISTS clients_by_age ON clients (waiting_since);

CREATE TABLE IF NOT EXISTS keys (              -- which keys a client had; another one needs a token for its name
  client INTEGER NOT NULL,
  since  INTEGER NOT NULL,                     -- the first round in which it is good for draws
  key    BLOB NOT NULL,
  PRIMARY KEY (client, since)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS key_owners (        -- the one client of each key, for good: also of keys that were renewed
  key    BLOB PRIMARY KEY,
  client INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS samples (           -- data sizes, as clients have told them
  client  INTEGER NOT NULL,
  since   INTEGER NOT NULL,                    -- the first round that begins with it
  samples INTEGER NOT NULL,
  PRIMARY KEY (client, since)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS tokens (
  id      TEXT PRIMARY KEY,                    -- the public part
  hash    BLOB NOT NULL,                       -- SHA-256 of the secret part
  role    TEXT NOT NULL,                       -- client (good once), observer, operator
  name    TEXT,                                -- the only name that may enrol with it, or whose it is
  client  INTEGER,                             -- who has enrolled with it
  revoked INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS rounds (
  round     INTEGER PRIMARY KEY,
  state     TEXT NOT NULL,                     -- joining, training, committed, abandoned (too few reports), refused (no model to go on with)
  settings  INTEGER NOT NULL,                  -- under which it was announced
  interval  REAL NOT NULL,                     -- of the age laws, as announced
  clients   INTEGER NOT NULL,                  -- n, as announced: those with smaller numbers
  seed      BLOB,                              -- as announced, 32 bytes; NULL where draws are seeded
  present   BLOB,                              -- who was connected when the coordinator chose, one bit for each client
  fallback  BLOB,                              -- who was connected when no client had come and one was invited
  model     INTEGER NOT NULL,                  -- the version that was trained
  began     INTEGER NOT NULL,                  -- Unix milliseconds, for people: nothing is decided by it
  available INTEGER NOT NULL DEFAULT 0,        -- connected when it was announced
  selected  INTEGER NOT NULL DEFAULT 0,
  reported  INTEGER NOT NULL DEFAULT 0,
  late      INTEGER NOT NULL DEFAULT 0,
  refused   INTEGER NOT NULL DEFAULT 0,
  forced    INTEGER NOT NULL DEFAULT 0,        -- 1: no client had come, and one was invited
  seconds   REAL,                              -- from the announcement to the end, by a clock that does not jump
  loss      REAL,                              -- of the new model on the test images
  accuracy  REAL,
  note      TEXT,
  draw_version INTEGER NOT NULL DEFAULT 2      -- how draws are proven: since 2 they cover the client's number
);

CREATE TABLE IF NOT EXISTS joins (
  round   INTEGER NOT NULL,
  client  INTEGER NOT NULL,
  age     INTEGER NOT NULL,
  outcome TEXT NOT NULL,                       -- invited, selected; reported; missing, gone, refused, late (failed); surplus (not waited for), full
  draws   INTEGER NOT NULL DEFAULT 1,          -- how often it was drawn, for policies that draw with replacement
  samples INTEGER,
  loss    REAL,
  seconds REAL,                                -- of training, as the client says
  norm    REAL,                                -- distance of its model to the global one
  sha256  BLOB,                                -- of what it sent
  proof   BLOB,                                -- of its draw, 96 bytes; NULL if it was invited
  weight  REAL,                                -- what it counted for
  PRIMARY KEY (round, client)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS failed_joins ON joins (client, round) WHERE outcome IN ('missing', 'gone', 'refused', 'late');

CREATE TABLE IF NOT EXISTS refusals (
  round  INTEGER NOT NULL,
  client INTEGER NOT NULL,                     -- -1: a peer that is not a client
  reason TEXT NOT NULL,                        -- age, draw, proof, round, shape, size, norm, signature, replay, rate, ...
  detail TEXT NOT NULL,                        -- of the last one
  count  INTEGER NOT NULL,
  PRIMARY KEY (round, client, reason)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS sketches (          -- of each client's last update, where the policy looks at that: the one table that forgets
  client  INTEGER PRIMARY KEY,
  round   INTEGER NOT NULL,                    -- in which the update was accepted
  numbers BLOB NOT NULL                        -- 32-bit floats, at most 512
);

CREATE TABLE IF NOT EXISTS ages (
  round   INTEGER NOT NULL,                    -- at its beginning
  age     INTEGER NOT NULL,                    -- 255: that, and all greater ones
  clients INTEGER NOT NULL,
  PRIMARY KEY (round, age)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS models (
  version INTEGER PRIMARY KEY,                 -- rounds that are behind it
  file    TEXT NOT NULL,
  sha256  BLOB NOT NULL,
  damaged INTEGER NOT NULL DEFAULT 0           -- 1: found to be damaged, and not used; 2: set aside by a rollback
);

CREATE TABLE IF NOT EXISTS rollbacks (         -- to the model of an earlier round, as an operator has asked; what was promised stays
  number  INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,                    -- the model that the run goes on with
  asked   INTEGER NOT NULL,                    -- Unix milliseconds, for people
  round   INTEGER,                             -- the first round that was announced after it; NULL: not done
  refused TEXT                                 -- why it was not done
);

CREATE TABLE suspensions (
  client INTEGER NOT NULL,
  since  INTEGER NOT NULL,                     -- the first round without it
  reason TEXT NOT NULL,
  lifted INTEGER NOT NULL DEFAULT 0,           -- 1: an operator has reinstated it
  until  INTEGER,                              -- the first round with it again
  PRIMARY KEY (client, since)
) WITHOUT ROWID;
