-- What a token may say. Rows of before stay as they are: one that cannot be read allows nothing, and deleting it here
-- would hide it from whoever looks for it.

-- Some databases of version 1 have earlier forms of these checks, under the same names.
ALTER TABLE shard.tokens
    DROP CONSTRAINT IF EXISTS tokens_scopes_check,
    DROP CONSTRAINT IF EXISTS tokens_collections_check;
ALTER TABLE shard.tokens
    ADD CONSTRAINT tokens_scopes_check
        CHECK (array_ndims(scopes) = 1 AND scopes <@ ARRAY['read', 'write', 'admin']) NOT VALID,
    ADD CONSTRAINT tokens_collections_check
        CHECK (array_ndims(collections) = 1 AND array_position(collections, NULL) IS NULL) NOT VALID;
