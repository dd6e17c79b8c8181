import type { X509Certificate } from 'node:crypto'
import { rootOf } from '@gatehouse/tls-probe'
import { certificatesIn, fingerprintOf } from './certificate.ts'
import { ClientError, describe } from './errors.ts'
import type { Get } from './keep.ts'
import { pemOf, type Roots } from './roots.ts'
import { updateRootsFile } from './roots-file.ts'

interface ChainRootsOptions extends Pick<Get, 'service' | 'clock' | 'log'> {
  /** The roots that verify the connections to the service. */
  readonly roots: Roots
  /** The file with these roots, if it is kept up to date. */
  readonly file: string | undefined
}

/** Finds the roots of chains: of those that are trusted, what the service names. */
export function openChainRoots({ roots, service, file, clock, log }: ChainRootsOptions) {
  let bundleIds: readonly string[] | undefined
  return {
    /** Whether the service has named its roots. */
    areNamed: () => bundleIds !== undefined,
    /** Asks the service for its roots. The certificate does not depend on it, so that what fails is only logged. */
    async look(): Promise<void> {
      try {
        const bundle = await service.rootBundle()
        bundleIds = bundle.map(fingerprintOf)
        if (file !== undefined) updateRootsFile(file, bundle, { clock, log })
      } catch (error) {
        if (!(error instanceof ClientError)) throw error
        if (file !== undefined) log.warn(describe(error), 'the file of roots was not updated')
      }
    },
    /** Finds the roots of a chain, PEM: the one alone that it leads to if the service has named none. Undefined if it leads to none. */
    find(fullChain: string): string | undefined {
      const current = roots()
      const root = rootOf(certificatesIn(fullChain), current)
      if (!root) return undefined
      const isNamed = (root: X509Certificate) => bundleIds?.includes(fingerprintOf(root))
      return pemOf(isNamed(root) ? current.filter(isNamed) : [root])
    },
  }
}
