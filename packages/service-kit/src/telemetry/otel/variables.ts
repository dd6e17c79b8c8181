import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'

/** The longest delay of a timer; a longer one would end at once. */
const MAX_NUMBER = 2 ** 31 - 1

/** Reads the variables that the libraries leave to the program. One that cannot be used is logged once, and the default applies. */
export class Variables {
  readonly #env: NodeJS.ProcessEnv
  readonly log: Logger
  readonly #refused = new Set<string>()

  constructor(env: NodeJS.ProcessEnv, log: Logger) {
    this.#env = env
    this.log = log
  }

  #read(name: string): string | undefined {
    return this.#env[name]?.trim() || undefined
  }

  #refuse(name: string, expected: string): void {
    if (!this.#refused.has(name)) this.log.warn(`${name} is not ${expected}; the default is used`)
    this.#refused.add(name)
  }

  /** The choice that the first variable that is set names. */
  choice<T>(names: readonly string[], choices: Readonly<Record<string, T>>, fallback: T): T {
    const name = names.find((candidate) => this.#read(candidate))
    if (name === undefined) return fallback
    const value = this.#read(name) ?? ''
    if (Object.hasOwn(choices, value)) return choices[value] as T
    this.#refuse(name, `one of ${Object.keys(choices).join(', ')}`)
    return fallback
  }

  /** Sizes and milliseconds, by the keys of `names`; those that are not set are left out. */
  numbers<K extends string>(names: Readonly<Record<K, string>>): { [key in K]?: number } {
    const sizes: { [key in K]?: number } = {}
    for (const key of Object.keys(names) as K[]) {
      const text = this.#read(names[key])
      const value = Number(text)
      if (Number.isInteger(value) && value > 0 && value <= MAX_NUMBER) sizes[key] = value
      else if (text !== undefined)
        this.#refuse(names[key], `a whole number from 1 to ${MAX_NUMBER}`)
    }
    return sizes
  }

  /** Logs which of the variables are set to something other than a URL. */
  checkUrls(names: readonly string[]): void {
    for (const name of names)
      if (!URL.canParse(this.#read(name) ?? 'about:blank')) this.#refuse(name, 'a URL')
  }

  /** The sampler of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG. */
  sampler(): Sampler {
    const byParent = (root: Sampler) => new ParentBasedSampler({ root })
    const ratio = () => new TraceIdRatioBasedSampler(this.#ratio())
    const fallback = () => byParent(new AlwaysOnSampler())
    const choices = {
      always_on: () => new AlwaysOnSampler(),
      always_off: () => new AlwaysOffSampler(),
      traceidratio: ratio,
      parentbased_always_on: fallback,
      parentbased_always_off: () => byParent(new AlwaysOffSampler()),
      parentbased_traceidratio: () => byParent(ratio()),
    }
    return this.choice<() => Sampler>(['OTEL_TRACES_SAMPLER'], choices, fallback)()
  }

  #ratio(): number {
    const ratio = Number(this.#read('OTEL_TRACES_SAMPLER_ARG') ?? 1)
    if (ratio >= 0 && ratio <= 1) return ratio
    this.#refuse('OTEL_TRACES_SAMPLER_ARG', 'a number from 0 to 1')
    return 1
  }
}
