"""What must hold in the ledger at any instant, as another program reads it with SQL."""

import hashlib
import json
import sqlite3
import time

OVER = "('committed', 'abandoned', 'refused')"

# Each query finds rows that must not be there.
FORBIDDEN = {
    "rounds are not contiguous": "SELECT COUNT(*), MAX(round) FROM rounds HAVING COUNT(*) != COALESCE(MAX(round), -1) + 1",
    "a round is open that is not the last": f"""
        SELECT round, state FROM rounds WHERE state NOT IN {OVER} AND round < (SELECT MAX(round) FROM rounds)""",
    "a round counts other reports than it has": f"""
        SELECT round, reported FROM rounds WHERE state IN {OVER} AND reported !=
          (SELECT COUNT(*) FROM joins WHERE joins.round = rounds.round AND outcome = 'reported')""",
    "a client is awaited in a round that is over": f"""
        SELECT round, client FROM joins JOIN rounds USING (round)
        WHERE outcome IN ('invited', 'selected') AND rounds.state IN {OVER}""",
    "a report is not credited exactly once": """
        SELECT client, reports FROM clients WHERE reports !=
          (SELECT COUNT(*) FROM joins WHERE joins.client = clients.client AND outcome = 'reported')""",
    "an accepted report has no checksum": "SELECT round, client FROM joins WHERE outcome = 'reported' AND sha256 IS NULL",
    "a client is in a round in which it was suspended": """
        SELECT round, client FROM joins JOIN suspensions USING (client) WHERE since <= round AND (until IS NULL OR until > round)""",
    "a client waits after failures that a credit has cleared": f"""
        SELECT client, failures FROM clients WHERE failures > 0 AND EXISTS (
          SELECT 1 FROM rounds WHERE round = waiting_since - 1 AND state IN {OVER}) AND waiting_since > (SELECT COALESCE(MAX(round), -1) FROM joins
          JOIN rounds USING (round) WHERE joins.client = clients.client AND outcome IN ('missing', 'gone', 'refused', 'late')
          AND rounds.state IN {OVER})""",
    "a credit is missing from an age": """
        SELECT client, waiting_since FROM clients WHERE waiting_since != COALESCE(
          (SELECT MAX(round) + 1 FROM joins WHERE joins.client = clients.client AND outcome = 'reported'), first_waiting)""",
    "an age in a round does not follow from the credits before it": """
        SELECT round, client, age FROM (
          SELECT round, client, age, MAX(CASE outcome WHEN 'reported' THEN round END) OVER (
            PARTITION BY client ORDER BY round ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last
          FROM joins) JOIN clients USING (client)
        WHERE round - age != COALESCE(last + 1, first_waiting)""",
    "a client is in a round that was announced without it": """
        SELECT round, client FROM joins JOIN rounds USING (round) WHERE client >= rounds.clients""",
    "two clients have one name or one key": """
        SELECT a.client, b.client FROM clients AS a JOIN clients AS b
        ON a.client < b.client AND (a.name = b.name OR a.key = b.key)""",
    "clients are not numbered from 0 on": "SELECT COUNT(*) FROM clients HAVING COUNT(*) != COALESCE(MAX(client), -1) + 1",
    "a committed round has no report": "SELECT round FROM rounds WHERE state = 'committed' AND reported = 0",
    "the newest model is not that of the last committed round": """
        SELECT MAX(version) FROM models HAVING COALESCE(MAX(version), 0) !=
          (SELECT COALESCE(MAX(round), -1) + 1 FROM rounds WHERE state = 'committed')""",
    "a model was damaged": "SELECT version FROM models WHERE damaged",
}


class Checks:
    """The ledger of one run, against itself and against everything that was seen before."""

    def __init__(self, state):
        self.state = state
        self.over, self.reports, self.clients = {}, {}, {}
        self.done = 0

    def look(self):
        """Checks one state of the ledger; gives the violations. It may be written to meanwhile."""
        found = []
        db = sqlite3.connect(f"file:{self.state}/ledger.sqlite?mode=ro", uri=True, timeout=10, isolation_level=None)
        try:
            db.execute("BEGIN")
            for what, query in FORBIDDEN.items():
                rows = db.execute(query).fetchmany(3)
                if rows:
                    found.append(f"{what}: {rows}")
            found += self.compare(db)
        finally:
            db.close()
        self.done += 1
        return found

    def compare(self, db):
        """Nothing that was there is gone or another."""
        found = []
        over = dict(
            (row[0], row)
            for row in db.execute(f"SELECT round, state, model, selected, reported, seed FROM rounds WHERE state IN {OVER}")
        )
        reports = {row[:2]: row for row in db.execute("SELECT round, client, age, sha256 FROM joins WHERE outcome = 'reported'")}
        clients = {row[0]: row for row in db.execute("SELECT client, name, key, first_waiting FROM clients")}
        for what, before, now in [
            ("a round that was over", self.over, over),
            ("a report that was credited", self.reports, reports),
            ("a client", self.clients, clients),
        ]:
            changed = [key for key, row in before.items() if now.get(key) != row]
            if changed:
                found.append(f"{what} is gone or changed: {changed[:3]}")
        self.over, self.reports, self.clients = over, reports, clients
        return found

    def models(self):
        """Every model of the ledger is there with its checksum. Old ones are removed meanwhile, so a missing one is looked at again."""
        for last_try in (False, True):
            db = sqlite3.connect(f"file:{self.state}/ledger.sqlite?mode=ro", uri=True, timeout=10)
            rows = db.execute("SELECT version, file, sha256 FROM models WHERE NOT damaged").fetchall()
            db.close()
            found = []
            for version, file, sha256 in rows:
                path = self.state / "models" / file
                if not path.is_file():
                    found.append(f"model {version} is not there")
                elif hashlib.sha256(path.read_bytes()).digest() != sha256:
                    found.append(f"model {version} does not have its checksum")
            if not found or last_try:
                return found
            time.sleep(1)
        return []

    def events(self, heard):
        """What clients had heard before the last look is in the ledger: each acceptance is a credit, and a name has one number."""
        found = []
        numbers = {row[1]: number for number, row in self.clients.items()}
        for text in heard:
            for line in text.splitlines():
                try:
                    event = json.loads(line)
                except json.JSONDecodeError:
                    # Killed while it was writing.
                    continue
                name, kind = event["client"], event["event"]
                if kind == "enrolled" and numbers.get(name) != event["number"]:
                    found.append(f"{name} was told that it is client {event['number']}, the ledger says {numbers.get(name)}")
                if kind == "accepted" and (event["round"], numbers.get(name)) not in self.reports:
                    found.append(f"{name} was credited in round {event['round']}, and the ledger does not know it")
        return found

    def figures(self):
        states = [row[1] for row in self.over.values()]
        return {
            "rounds committed": states.count("committed"),
            "rounds abandoned": states.count("abandoned"),
            "rounds refused": states.count("refused"),
            "reports credited": len(self.reports),
        }
