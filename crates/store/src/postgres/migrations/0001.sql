-- Collections, epochs, rows, blobs, leases and tokens. docs/FORMAT.md says what the columns mean.

CREATE TABLE shard.collections (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    revision bigint NOT NULL DEFAULT 0,
    commit_name bytea CHECK (octet_length(commit_name) = 16),
    unfinished bytea CHECK (octet_length(unfinished) = 16),
    turn bigint NOT NULL DEFAULT 0,
    current_epoch bigint,
    blob_count bigint NOT NULL DEFAULT 0 CHECK (blob_count >= 0)
);

CREATE TABLE shard.epochs (
    collection bigint NOT NULL REFERENCES shard.collections ON DELETE CASCADE,
    epoch bigint NOT NULL,
    width integer NOT NULL CHECK (width > 0),
    row_count bigint NOT NULL CHECK (row_count >= 0),
    blocks bigint NOT NULL CHECK (blocks >= 0),
    PRIMARY KEY (collection, epoch)
);

-- Without a foreign key: every change holds the lock of its collection, and a key would be checked row by row.
CREATE TABLE shard.rows (
    collection bigint NOT NULL,
    epoch bigint NOT NULL,
    handle bigint NOT NULL,
    cell bigint NOT NULL,
    mac bytea NOT NULL CHECK (octet_length(mac) = 16),
    coordinates bytea NOT NULL,
    PRIMARY KEY (collection, epoch, handle)
);
-- Coordinates are as good as random: trying to compress them costs time and saves nothing.
ALTER TABLE shard.rows ALTER COLUMN coordinates SET STORAGE EXTERNAL;

CREATE TABLE shard.deleted (
    collection bigint NOT NULL,
    epoch bigint NOT NULL,
    handle bigint NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (collection, epoch, handle)
);

CREATE TABLE shard.blobs (
    collection bigint NOT NULL REFERENCES shard.collections,
    name text COLLATE "C" NOT NULL,
    length bigint NOT NULL CHECK (length >= 0),
    bytes bytea,
    object bytea CHECK (octet_length(object) = 32),
    PRIMARY KEY (collection, name),
    CHECK ((bytes IS NULL) <> (object IS NULL))
);
ALTER TABLE shard.blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE INDEX blobs_by_object ON shard.blobs (object) WHERE object IS NOT NULL;

-- Objects that a blob is about to name, or that one has named: what no blob names when the time of grace is
-- over is deleted.
CREATE TABLE shard.loose_objects (
    object bytea PRIMARY KEY CHECK (octet_length(object) = 32),
    noted timestamptz NOT NULL
);
CREATE INDEX loose_objects_by_age ON shard.loose_objects (noted);

CREATE TABLE shard.workers (
    id bigint PRIMARY KEY,
    address text NOT NULL,
    certificate bytea NOT NULL CHECK (octet_length(certificate) = 32),
    ready boolean NOT NULL,
    expires timestamptz NOT NULL
);

CREATE TABLE shard.tokens (
    id text PRIMARY KEY,
    sha256 bytea NOT NULL UNIQUE CHECK (octet_length(sha256) = 32),
    scopes text[] NOT NULL,
    collections text[] NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    requests_per_second bigint,
    bytes_per_second bigint,
    concurrent bigint
);
