import type { Method } from './authorization.ts'
import type { KeyCaller } from './caller.ts'
import { createGate, type Gate, type GateDeps } from './gate.ts'
import type { RemoteKeys } from './oidc/remote-keys.ts'
import type { AuthOptions } from './options.ts'
import { readSettings } from './settings.ts'

/** The state of authentication, and ways to change its options: `app.callers`. */
export interface Callers {
  /** The issuers that could not be reached at the last try. Asking also tries them again when due. */
  status(): { degraded: readonly string[] }
  /** The methods that are accepted now. */
  methods(): readonly Method[]
  /**
   * Whose the API key with this SHA-256 is now; undefined when it is nobody's. For sessions that are
   * opened with a key, do not keep it, and end with it.
   */
  findKey(sha256: Uint8Array): KeyCaller | undefined
  /**
   * Checks new options and reads the files that they name, and changes nothing. The function that it
   * gives puts the new options into effect: it is synchronous and does not throw, so that an
   * application can prepare all of its parts first and then change them together.
   *
   * @throws AuthError AUTH_OPTIONS_INVALID
   */
  prepare(options: AuthOptions): () => void
  /**
   * Replaces the options. What was removed is gone from every cache; faulty options change nothing.
   *
   * @throws AuthError AUTH_OPTIONS_INVALID
   */
  reload(options: AuthOptions): void
}

/** Holds the gate of the options that are in effect. */
export class CurrentGate implements Callers {
  readonly #deps: GateDeps
  #gate: Gate

  constructor(options: AuthOptions, deps: GateDeps) {
    this.#deps = deps
    this.#gate = createGate(readSettings(options, deps.bearer !== undefined), deps)
  }

  get gate(): Gate {
    return this.#gate
  }

  status(): { degraded: readonly string[] } {
    const remotes = [...this.#gate.remotes.values()]
    for (const keys of remotes) keys.current()
    return { degraded: remotes.filter((keys) => keys.failing()).map(({ issuer }) => issuer) }
  }

  methods(): readonly Method[] {
    return this.#gate.methods
  }

  findKey(sha256: Uint8Array): KeyCaller | undefined {
    return this.#gate.findKey(Buffer.from(sha256).toString('latin1'))
  }

  prepare(options: AuthOptions): () => void {
    const settings = readSettings(options, this.#deps.bearer !== undefined)
    const base = this.#gate
    const prepared = createGate(settings, this.#deps, base)
    return () => {
      const current = this.#gate
      // If other options came into effect meanwhile, share the keys of those instead.
      this.#gate = current === base ? prepared : createGate(settings, this.#deps, current)
      const kept = new Set(this.#gate.remotes.values())
      void closeAll([...current.remotes.values()].filter((keys) => !kept.has(keys)))
    }
  }

  reload(options: AuthOptions): void {
    this.prepare(options)()
  }

  close(): Promise<void> {
    return closeAll(this.#gate.remotes.values())
  }
}

/** Nothing is left to do about connections that do not close well. */
async function closeAll(remotes: Iterable<RemoteKeys>): Promise<void> {
  await Promise.allSettled(Array.from(remotes, (keys) => keys.close()))
}
