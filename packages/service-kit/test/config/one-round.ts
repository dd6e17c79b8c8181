import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ConfigError } from '@gatehouse/service-kit/config'
import type { Test } from 'tap'
import { stringify } from 'yaml'

/** A configuration of a service, and what can be wrong with it. */
export interface OneRound<Config> {
  /** A configuration without a fault that has something everywhere. */
  base(): Config
  /** By the path of the one fault that each makes; no two of them touch the same key. */
  readonly breaks: Readonly<Record<string, (config: Config) => void>>
  /** The path that names a file which is not there. */
  readonly absent: string
  /** What is written of a configuration; default: all as it is. */
  fileOf?(config: Config): object
  load(file: string, env: object, options: { withoutSecrets: boolean }): Promise<unknown>
}

/** Holds that every fault of a file is told in one round. */
export function holdOneRound<Config extends object>(t: Test, service: OneRound<Config>): void {
  const { base, breaks, absent, fileOf = (config) => config, load } = service
  const folder = t.testdir({})

  async function faultsOf(config: Config, withoutSecrets = false): Promise<ConfigError['faults']> {
    const file = join(folder, 'config.yaml')
    await writeFile(file, stringify(fileOf(config)))
    return load(file, {}, { withoutSecrets }).then(
      () => [],
      (error: ConfigError) => error.faults,
    )
  }

  const pathsOf = (faults: ConfigError['faults']) => faults.map(({ path }) => path)

  function broken(changes: readonly ((config: Config) => void)[]): Config {
    const config = base()
    for (const change of changes) change(config)
    return config
  }

  t.test('the configuration has no fault before it is broken', async (t) => {
    t.strictSame(await faultsOf(base()), [])
  })

  t.test('a file with a fault of each kind is told of all, in the order of the file', async (t) => {
    const faults = await faultsOf(broken(Object.values(breaks)))
    t.strictSame(new Set(pathsOf(faults)), new Set(Object.keys(breaks)))
    const lines = faults.map(({ line }) => line)
    t.strictSame(
      lines,
      lines.toSorted((a, b) => a - b),
    )
  })

  t.test('any two faults are told together', async (t) => {
    const all = Object.entries(breaks)
    for (const [i, [first, a]] of all.entries())
      for (const [second, b] of all.slice(i + 1)) {
        const paths = pathsOf(await faultsOf(broken([a, b])))
        if (!paths.includes(first) || !paths.includes(second) || paths.length !== 2)
          t.strictSame(new Set(paths), new Set([first, second]))
      }
  })

  t.test('without secrets nothing but an absent file is passed over', async (t) => {
    const faults = await faultsOf(broken(Object.values(breaks)), true)
    const others = Object.keys(breaks).filter((path) => path !== absent)
    t.equal(others.length, Object.keys(breaks).length - 1)
    t.strictSame(new Set(pathsOf(faults)), new Set(others))
  })
}
