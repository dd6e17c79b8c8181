import { attempt, type Clock } from '@gatehouse/net'
import { generateKeyPair, type KeyPair, type KeyType, keyPairFromPem, toPem } from '@gatehouse/pki'
import type { Placed } from './certificate.ts'
import { type CertificateFolder, certificateFolder, type FolderOptions } from './folder.ts'
import { type Reload, runReload } from './reload.ts'

/** Clients that wait for each other's reload command wait a little longer than that may take, in ms. */
const LOCK_MS = 10_000

/** The place where a certificate is kept. */
export interface StoragePlace {
  /** The name of the place in messages. */
  readonly path: string
  /** Reads what is there, if it is whole. */
  read(): Promise<Placed | undefined>
  /** Puts a pair there, unless another client has put one there since `seen` was read. */
  put(pair: Placed, seen: Placed | undefined): Promise<void>
  /** Does what is left to do for what is there. */
  settle(): Promise<void>
  /** The private key for a CSR; a new one if `isFresh`. Absent where keys cannot wait for their certificate. */
  ownKey?(type: KeyType, isFresh: boolean): Promise<KeyPair>
}

interface PlaceOptions extends FolderOptions {
  readonly reload: Reload | undefined
  readonly clock: Clock
  readonly log: { info(fields: object, message: string): void }
  readonly signal: AbortSignal
}

/** Keeps a certificate in a folder, and runs the reload command after each change. */
export function openFolder(options: PlaceOptions): StoragePlace {
  const { reload, clock, log, signal } = options
  const folder = certificateFolder(options)
  const { path } = folder
  const locked = async <T>(step: () => Promise<T> | T): Promise<T> => {
    const unlock = await folder.lock((reload?.timeoutMs ?? 0) + LOCK_MS, clock, signal)
    try {
      return await step()
    } finally {
      unlock()
    }
  }
  const finish = async () => {
    if (folder.isReloadPending()) {
      if (reload) {
        await runReload(reload, signal)
        log.info({ path }, 'the reload command succeeded')
      }
      folder.reloaded()
    }
    folder.tidy()
  }
  const read = () => {
    const placed = folder.read()
    return placed && folder.hasCompanions(placed) ? placed : undefined
  }
  folder.prepare()
  return {
    path,
    read: async () => read(),
    put: (pair, seen) =>
      locked(() => {
        const now = read()
        if (now && now.fingerprint256 !== seen?.fingerprint256) return
        folder.publish(pair, { needsReload: reload !== undefined })
        const { names, serialNumber } = pair
        log.info({ path, names, serialNumber }, 'a new certificate is in place')
      }),
    async settle() {
      folder.adjust()
      if (folder.isReloadPending() || folder.isUntidy()) await locked(finish)
    },
    ownKey: (type, isFresh) =>
      locked(async () => {
        const cached = isFresh ? undefined : knownKey(folder, type)
        if (cached) return cached
        const pair = await generateKeyPair(type)
        folder.keepKey(toPem('PRIVATE KEY', pair.pkcs8))
        return pair
      }),
  }
}

/** The key that waits for its certificate, else the one in place if it was made here. */
function knownKey(folder: CertificateFolder, type: KeyType): KeyPair | undefined {
  const placed = folder.read()
  const pems = [folder.keptKey(), placed?.isOwnKey ? placed.privateKey : undefined]
  const keys = pems.flatMap((pem) => (pem && attempt(() => keyPairFromPem(pem))) || [])
  return keys.find((key) => key.type === type)
}
