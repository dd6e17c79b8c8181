import t from 'tap'
import { toSqlite } from '../../src/engine.ts'

const statements: [postgres: string, sqlite: string][] = [
  ['SELECT a FROM b WHERE c = $1 AND d = $12', 'SELECT a FROM b WHERE c = ?1 AND d = ?12'],
  ['SELECT $1::text, a::int8 + $2::bigint FROM b', 'SELECT ?1, a + ?2 FROM b'],
  ['UPDATE a SET b = least(b, $1) + greatest(c, $2)', 'UPDATE a SET b = min(b, ?1) + max(c, ?2)'],
  ['SELECT min(a), strpos(b, $1) FROM c', 'SELECT min(a), instr(b, ?1) FROM c'],
  [
    'WHERE id IN (SELECT value::bigint FROM json_array_elements_text($1::json))',
    'WHERE id IN (SELECT value FROM json_each(?1))',
  ],
  ['SELECT a FROM b FOR UPDATE', 'SELECT a FROM b '],
  ['SELECT a FROM b LIMIT $1 FOR NO KEY UPDATE', 'SELECT a FROM b LIMIT ?1 '],
  ['SELECT a FROM b FOR SHARE', 'SELECT a FROM b '],
  ['(SELECT a FROM b FOR UPDATE OF b SKIP LOCKED)', '(SELECT a FROM b )'],
  ['ORDER BY a COLLATE "C", b', 'ORDER BY a, b'],
  [
    'CREATE INDEX a ON b (c COLLATE "C", d) INCLUDE (e, f) WHERE g',
    'CREATE INDEX a ON b (c, d, e, f) WHERE g',
  ],
  [
    'a bigint GENERATED ALWAYS AS (coalesce(b, c)) STORED',
    'a INTEGER GENERATED ALWAYS AS (coalesce(b, c)) STORED',
  ],
  [
    'INSERT INTO a VALUES ($1) RETURNING id AS "Id"',
    'INSERT INTO a VALUES (?1) RETURNING id AS "Id"',
  ],
  // A name that only looks like what is replaced.
  ['SELECT at_least($1), bigints FROM forupdate', 'SELECT at_least(?1), bigints FROM forupdate'],
]

for (const [postgres, sqlite] of statements)
  t.test(postgres, async (t) => {
    t.equal(toSqlite(postgres), sqlite)
    t.equal(toSqlite(sqlite), sqlite, 'what is for SQLite already stays')
  })
