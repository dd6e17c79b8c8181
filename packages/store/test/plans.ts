import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { DatabaseSync } from 'node:sqlite'
import type { Test } from 'tap'
import type { PostgresServer } from '../../../scripts/test/postgres.ts'
import { toSqlite } from '../src/engine.ts'
import { type Queries, Sqlite, type Transaction } from '../src/index.ts'

/** Rows of each large table. */
const MANY = 100_000
/** Rows that one look-up may visit at most, on the average. */
const FEW = 1_000
/** What PostgreSQL may expect a statement to cost: a list of a hundred look-ups 1,600, a read of all rows 4,700. */
const CHEAP = 2_500

/** Begins to keep the text of each statement that a store runs. */
export function recordSqlite(t: Pick<Test, 'teardown'>): ReadonlySet<string> {
  const texts = new Set<string>()
  const { all, transaction } = Sqlite.prototype
  const recording = <On extends Queries>(on: On): On => ({
    ...on,
    ...Object.fromEntries(
      (['all', 'get', 'run'] as const).map((method) => [
        method,
        (sql: string, ...params: never[]) => {
          texts.add(sql)
          return (on as unknown as Transaction)[method](sql, ...params)
        },
      ]),
    ),
  })
  Object.assign(Sqlite.prototype, {
    all(this: Sqlite, sql: string, ...params: never[]) {
      texts.add(sql)
      return all.call(this, sql, ...params)
    },
    transaction(this: Sqlite, job: (tx: Transaction) => Promise<unknown>, options: object) {
      return transaction.call(this, (tx) => job(recording(tx)), options)
    },
  })
  t.teardown(() => Object.assign(Sqlite.prototype, { all, transaction }))
  return texts
}

/** The same of stores in PostgreSQL: what goes to the server. */
export function recordPostgres(t: Pick<Test, 'teardown'>): ReadonlySet<string> {
  const texts = new Set<string>()
  const { query } = Client.prototype
  Client.prototype.query = function (asked: { text?: string } | string, ...rest: unknown[]) {
    if (typeof asked === 'object' && asked.text) texts.add(asked.text)
    return query.call(this, asked, ...rest)
  }
  t.teardown(() => Object.assign(Client.prototype, { query }))
  return texts
}

const { Client } = createRequire(import.meta.url)('pg')

const IS_SQL = /\$\d|\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|ORDER BY)\b/

/** The texts of a file that are SQL, each as the parts between what is filled in, and that no statement has. */
export function neverRun(file: URL, texts: Iterable<string>): readonly string[] {
  const all = [...texts].map(folded)
  return templatesOf(readFileSync(file, 'utf8'))
    .filter((parts) => IS_SQL.test(parts.join('')))
    .filter((parts) => !all.some((text) => hasParts(text, parts.map(folded))))
    .map((parts) => `${file.pathname.replace(/.*\//, '')}: ${parts.join('…')}`)
}

const folded = (text: string) => text.replace(/\s+/g, ' ')

function hasParts(text: string, parts: readonly string[]): boolean {
  let at = 0
  for (const part of parts) {
    const found = text.indexOf(part.trim(), at)
    if (found < 0) return false
    at = found + part.trim().length
  }
  return true
}

/** The string literals of a source text. A template is the parts between its substitutions, whose texts follow. */
function templatesOf(source: string): readonly (readonly string[])[] {
  const found: string[][] = []
  const skip =
    /\/\/.*|\/\*[\s\S]*?\*\/|'((?:[^'\\\n]|\\.)*)'|\/(?![/*])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[dgimsuy]*(?=[),.;\s])/y
  /** Reads code until its end, or the brace that ends a substitution. Gives where that is. */
  const readCode = (from: number): number => {
    let depth = 0
    for (let i = from; i < source.length; i++) {
      skip.lastIndex = i
      const skipped = skip.exec(source)
      if (skipped) {
        if (skipped[1] !== undefined) found.push([skipped[1]])
        i += skipped[0].length - 1
      } else if (source[i] === '`') i = readTemplate(i + 1)
      else if (source[i] === '{') depth++
      else if (source[i] === '}' && depth-- === 0) return i
    }
    return source.length
  }
  const readTemplate = (from: number): number => {
    const parts = ['']
    found.push(parts)
    for (let i = from; i < source.length; i++)
      if (source[i] === '`') return i
      else if (source.startsWith('${', i)) {
        i = readCode(i + 2)
        parts.push('')
      } else parts.push(`${parts.pop()}${source[i]}`)
    throw new Error('a template has no end')
  }
  readCode(0)
  return found
}

/** SQL of a value for a column: of a type that both engines know. */
export type SqlOf = (table: string, column: string) => string | undefined

/** Fills tables of SQLite, row by row different but for what `sqlOf` gives: SQL, in which `n` is the row. */
export function fillSqlite(sqlite: DatabaseSync, tables: readonly string[], sqlOf: SqlOf): void {
  sqlite.exec('PRAGMA foreign_keys = OFF')
  for (const table of tables) {
    const info = sqlite.prepare(`SELECT name, type FROM pragma_table_info('${table}')`).all()
    const values = info.map(({ name, type }) => {
      const value = type === 'TEXT' ? `'${name}' || n` : type === 'BLOB' ? 'randomblob(9)' : 'n'
      return sqlOf(table, String(name)) ?? value
    })
    sqlite.exec(`DELETE FROM ${table}; INSERT INTO ${table} (${info.map(({ name }) => name)})
      WITH RECURSIVE rows (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows WHERE n < ${MANY})
      SELECT ${values} FROM rows`)
  }
}

/** The same in a schema of PostgreSQL, whose tables are analysed. */
export async function fillPostgres(
  server: PostgresServer,
  schema: string,
  tables: readonly string[],
  sqlOf: SqlOf,
): Promise<void> {
  for (const table of tables) {
    const info = await server.sql<{ name: string; type: string }>(`
      SELECT column_name AS name, data_type AS type FROM information_schema.columns
      WHERE table_schema = '${schema}' AND table_name = '${table}' AND is_generated = 'NEVER'
        AND data_type <> 'xid8'`)
    const byType: Record<string, string> = {
      text: '',
      bytea: `'\\x00'`,
      boolean: 'true',
      bigint: 'n',
    }
    const values = info.map(({ name, type }) => {
      const own = sqlOf(table, name)
      if (own !== undefined) return type === 'boolean' ? `(${own}) = 1` : own
      return type === 'text' ? `'${name}' || n` : byType[type]
    })
    await server.sql(`SET session_replication_role = replica; DELETE FROM ${schema}.${table};
      INSERT INTO ${schema}.${table} (${info.map(({ name }) => name)}) OVERRIDING SYSTEM VALUE
      SELECT ${values} FROM generate_series(1, ${MANY}) AS rows (n)`)
  }
  await server.sql(
    `SET search_path TO ${schema}; ${tables.map((each) => `ANALYZE ${each}`).join('; ')}`,
  )
}

/**
 * What is wrong with the plans of statements in SQLite, by their text: steps that read more than a few rows. It plans
 * without statistics, as it is shipped. How many rows an index finds is counted after that.
 */
export function costlyInSqlite(
  sqlite: DatabaseSync,
  large: readonly string[],
  texts: Iterable<string>,
): ReadonlyMap<string, readonly string[]> {
  const plans = [...texts].filter(isPlanned).map((text) => {
    const steps = sqlite.prepare(`EXPLAIN QUERY PLAN ${toSqlite(text)}`).all()
    const details = steps.map(({ detail }) => String(detail))
    const isSorted = details.includes('USE TEMP B-TREE FOR ORDER BY')
    return [isSorted ? `${text} (sorted)` : text, details] as const
  })
  sqlite.exec('ANALYZE')
  const found = new Map(
    sqlite
      .prepare('SELECT idx, stat FROM sqlite_stat1')
      .all()
      .map(({ idx, stat }) => [String(idx), String(stat).split(' ').map(Number)]),
  )
  const indexes = new Map(
    sqlite
      .prepare('SELECT name, sql FROM sqlite_schema')
      .all()
      .map(({ name, sql }) => [name, sql]),
  )
  const isCostly = (text: string, step: string): boolean => {
    const [, how, table = '', index, where = ''] =
      /^(SCAN|SEARCH) (\w+)(?:.* INDEX (\w+))?(?: USING INTEGER PRIMARY KEY)? ?(?:\((.*)\))?$/.exec(
        step,
      ) ?? []
    if (!how || !large.includes(aliased(text, table))) return false
    // As many as are asked for, in the order of the index.
    if (how === 'SCAN' && /\bLIMIT \S+$/.test(text) && !/\bWHERE\b/.test(text)) return false
    const equal = where.split(' AND ').filter((each) => /(?:\w|<expr>)=\?$/.test(each)).length
    if (index === undefined)
      return where !== 'rowid=?' && !isPage(text, where.replace('rowid', 'id'), '')
    // A partial index may have few rows.
    if ((found.get(index)?.[equal] ?? 0) <= FEW) return false
    return !isPage(text, where, String(indexes.get(index)))
  }
  return only(plans.map(([text, steps]) => [text, steps.filter((step) => isCostly(text, step))]))
}

/**
 * Whether a statement, or what it takes rows from, reads no more rows than its limit: an index has them in their order,
 * and knows of each of its conditions.
 */
function isPage(text: string, where: string, index: string): boolean {
  // After a row, which is after the first of its values.
  const asked = folded(text).replace(/\((\w+), \w+\) > \((\$\d+), \$\d+\)/, '$1 > $2')
  const [, conditions = ''] =
    /\bFROM \w+ WHERE ([^()]+?)(?: ORDER BY [^()]+)? LIMIT [^ )]+(?:\)| FOR |$)/.exec(asked) ?? []
  const [, ofIndex = ''] = / WHERE (.+)/.exec(folded(index)) ?? []
  const isKnown = (condition: string) => {
    const [, of, how] = /^([\w +]+) ([<=>])=? .+$/.exec(condition) ?? []
    const isComputed = where.includes(`<expr>${how}?`) && index.includes(`(${of})`)
    const isRange = where.includes(`${of}${how}?`)
    return isComputed || isRange || ofIndex.split(' AND ').includes(condition)
  }
  return conditions !== '' && conditions.split(' AND ').every(isKnown)
}

/** Refuses what is costly, unless it is known, and what is known but not costly any more. */
export function assertKnown(
  t: Test,
  costly: ReadonlyMap<string, readonly string[]>,
  known: Readonly<Record<string, string>>,
): void {
  const isKnown = (text: string) => Object.keys(known).filter((part) => folded(text).includes(part))
  for (const [text, steps] of costly)
    if (isKnown(text).length === 0) t.fail(`${steps.join(', ')}: ${folded(text)}`)
  const used = new Set([...costly.keys()].flatMap(isKnown))
  t.strictSame(used, new Set(Object.keys(known)), 'what is known to be costly is so')
}

/** The same in PostgreSQL, by what it expects of statements of any values. */
export async function costlyInPostgres(
  server: PostgresServer,
  schema: string,
  large: readonly string[],
  texts: Iterable<string>,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const plans: [string, string[]][] = []
  const client = new Client({ connectionString: server.url })
  await client.connect()
  await client.query(`SET search_path TO ${schema}; SET plan_cache_mode = force_generic_plan`)
  for (const text of [...texts].filter(isPlanned)) {
    const count = Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n)))
    const params = Array.from({ length: count }, (_, i) => `$${i + 1}`)
    const values = count > 0 ? `(${params.map(() => 'NULL')})` : ''
    // It expects a tenth of all rows of a limit that it does not know.
    const limited = text.replace(/LIMIT \$\d+/g, 'LIMIT 50')
    const types = params.map((each) =>
      new RegExp(`\\${each}\\b`).test(limited) ? 'unknown' : 'bigint',
    )
    await client.query(`PREPARE asked ${count > 0 ? `(${types})` : ''} AS ${limited}`)
    const { rows } = await client.query(`EXPLAIN (FORMAT JSON) EXECUTE asked${values}`)
    await client.query('DEALLOCATE asked')
    const plan: Plan = rows[0]['QUERY PLAN'][0].Plan
    const scans = nodesOf(plan).filter(
      (node) => node['Node Type'] === 'Seq Scan' && large.includes(node['Relation Name'] ?? ''),
    )
    const cost = plan['Total Cost']
    plans.push([
      text,
      [
        ...scans.map((node) => `SCAN ${node['Relation Name']}`),
        ...(cost > CHEAP ? [`costs ${Math.round(cost)}`] : []),
      ],
    ])
  }
  await client.end()
  return only(plans)
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Total Cost': number
  readonly Plans?: readonly Plan[]
}

const nodesOf = (plan: Plan): readonly Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

const isPlanned = (text: string) => /^\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b/.test(text)

/** The table that a statement calls by another name. */
function aliased(text: string, name: string): string {
  return new RegExp(`(\\w+) AS ${name}\\b`).exec(text)?.[1] ?? name
}

const only = (plans: readonly (readonly [string, readonly string[]])[]) =>
  new Map(plans.filter(([, steps]) => steps.length > 0))
