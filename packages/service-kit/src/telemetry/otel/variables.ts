import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'

/** Reads variables that the OpenTelemetry libraries leave to the program. A value that cannot be used is told once. */
export interface Variables {
  /** The one of `choices` that the first set variable names. */
  choice<T>(names: readonly string[], choices: Readonly<Record<string, T>>, fallback: T): T
  /** Those of the variables that hold sizes or milliseconds, by the keys of `names`. */
  numbers<K extends string>(names: Readonly<Record<K, string>>): { [key in K]?: number }
  /** Tells which of the variables are set to something else than a URL. */
  checkUrls(names: readonly string[]): void
  /** By OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG. */
  sampler(): Sampler
}

/** The longest that a timer waits: with more, it would not wait at all. */
const MAX_NUMBER = 2 ** 31 - 1

export function createVariables(env: NodeJS.ProcessEnv, log: Logger): Variables {
  const read = (name: string) => env[name]?.trim() || undefined
  const refused = new Set<string>()
  const refuse = (name: string, expected: string) => {
    if (!refused.has(name)) log.warn(`${name} is not ${expected}; the default counts`)
    refused.add(name)
  }

  const variables: Variables = {
    choice(names, choices, fallback) {
      const name = names.find(read)
      if (name === undefined) return fallback
      const chosen = Object.entries(choices).find(([key]) => key === read(name))
      if (!chosen) refuse(name, `one of ${Object.keys(choices).join(', ')}`)
      return chosen?.[1] ?? fallback
    },
    numbers<K extends string>(names: Readonly<Record<K, string>>) {
      const found: { [key in K]?: number } = {}
      for (const key of Object.keys(names) as K[]) {
        const text = read(names[key])
        const value = Number(text)
        if (Number.isInteger(value) && value > 0 && value <= MAX_NUMBER) found[key] = value
        else if (text !== undefined) refuse(names[key], `a whole number from 1 to ${MAX_NUMBER}`)
      }
      return found
    },
    checkUrls(names) {
      for (const name of names)
        if (!URL.canParse(read(name) ?? 'about:blank')) refuse(name, 'a URL')
    },
    sampler() {
      const byParent = (root: Sampler) => new ParentBasedSampler({ root })
      const ratio = () => new TraceIdRatioBasedSampler(readRatio())
      const fallback = () => byParent(new AlwaysOnSampler())
      const choices = {
        always_on: () => new AlwaysOnSampler(),
        always_off: () => new AlwaysOffSampler(),
        traceidratio: ratio,
        parentbased_always_on: fallback,
        parentbased_always_off: () => byParent(new AlwaysOffSampler()),
        parentbased_traceidratio: () => byParent(ratio()),
      }
      return variables.choice<() => Sampler>(['OTEL_TRACES_SAMPLER'], choices, fallback)()
    },
  }
  function readRatio(): number {
    const ratio = Number(read('OTEL_TRACES_SAMPLER_ARG') ?? 1)
    if (ratio >= 0 && ratio <= 1) return ratio
    refuse('OTEL_TRACES_SAMPLER_ARG', 'a number from 0 to 1')
    return 1
  }
  return variables
}
