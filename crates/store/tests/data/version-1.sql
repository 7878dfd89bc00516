-- A behaviour database as pinfold 0.1 made it, in which one machine has two identities, because its memory grew.
PRAGMA application_id = 0x504e4644;
PRAGMA user_version = 1;
CREATE TABLE program (
        id          INTEGER PRIMARY KEY,
        identity    TEXT NOT NULL,
        name        TEXT NOT NULL,
        shape       TEXT NOT NULL,
        machine     TEXT NOT NULL,
        machine_name TEXT NOT NULL,
        simulated   INTEGER NOT NULL,
        UNIQUE (identity, shape, machine)
    ) STRICT;
CREATE TABLE sample (
        id          INTEGER PRIMARY KEY,
        program     INTEGER NOT NULL REFERENCES program (id) ON DELETE CASCADE,
        threads     INTEGER NOT NULL,
        at          INTEGER NOT NULL,
        hint        TEXT NOT NULL,
        pus         TEXT NOT NULL,
        lasted      REAL NOT NULL,
        metric      TEXT,
        rate        REAL,
        observed    TEXT NOT NULL
    ) STRICT;
CREATE INDEX sample_of_program ON sample (program, threads);
CREATE TABLE choice (
        program     INTEGER NOT NULL REFERENCES program (id) ON DELETE CASCADE,
        threads     INTEGER NOT NULL,
        hint        TEXT NOT NULL,
        rules       TEXT,
        why         TEXT NOT NULL,
        before      REAL,
        after       REAL,
        kept        INTEGER NOT NULL,
        at          INTEGER NOT NULL,
        PRIMARY KEY (program, threads)
    ) STRICT;
CREATE TABLE built (
        rules       TEXT NOT NULL,
        samples     INTEGER NOT NULL,
        at          INTEGER NOT NULL
    ) STRICT;
CREATE TABLE placement (
        program     INTEGER NOT NULL REFERENCES program (id) ON DELETE CASCADE,
        threads     INTEGER NOT NULL,
        pus         TEXT NOT NULL,
        pages       TEXT NOT NULL,
        metric      TEXT NOT NULL,
        rate        REAL NOT NULL,
        gain        REAL NOT NULL,
        at          INTEGER NOT NULL,
        PRIMARY KEY (program, threads)
    ) STRICT;
INSERT INTO program VALUES
    (1, 'build-id:1', 'solver', '--size 8M', '11111111111111111111111111111111', 'EPYC', 0),
    (2, 'build-id:1', 'solver', '--size 8M', '22222222222222222222222222222222', 'EPYC', 0),
    (3, 'build-id:2', 'fft', '', '22222222222222222222222222222222', 'EPYC', 0),
    -- Another machine with these processors, which has more of them.
    (4, 'build-id:2', 'fft', '', '33333333333333333333333333333333', 'EPYC', 0),
    (5, 'build-id:2', 'fft', '', '44444444444444444444444444444444', 'EPYC', 1);
INSERT INTO placement VALUES
    (1, 2, '0,1', '', 'regions', 10.0, 0.1, 100),
    (1, 4, '0-3', '', 'regions', 20.0, 0.1, 300),
    (2, 2, '2,3', '', 'regions', 12.0, 0.3, 200),
    (2, 4, '3,2,1,0', '', 'regions', 19.0, 0.1, 200),
    (3, 2, '1,2', '', 'regions', 5.0, 0.2, 100),
    (4, 2, '1,9', '', 'regions', 6.0, 0.2, 100),
    (5, 2, '1,2', '', 'regions', 7.0, 0.2, 100);
INSERT INTO choice VALUES
    (1, 2, 'SLP', NULL, 'rule 1', 1.0, 2.0, 1, 100),
    (2, 2, 'slp', NULL, 'rule 2', 1.0, 3.0, 1, 200);
INSERT INTO sample VALUES
    (1, 1, 2, 100, 'unpinned', '0,1', 1.0, 'regions', 9.0, '[]'),
    (2, 2, 2, 200, 'unpinned', '2,3', 1.0, 'regions', 9.5, '[]');
