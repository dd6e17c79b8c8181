import type { Parameter, Queries, Row } from './engine.ts'

type Read = (sql: string, params: readonly Parameter[]) => Promise<readonly Row[]>

/** Reads, by what gives the rows of a statement. */
export function queriesOf(read: Read): Queries {
  const all = async <T>(sql: string, ...params: readonly Parameter[]) =>
    (await read(sql, params)) as readonly T[]
  return { all, get: async <T>(...query: Parameters<typeof all>) => (await all<T>(...query))[0] }
}
