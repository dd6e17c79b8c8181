import { isDeepStrictEqual } from 'node:util'
import type { Fault } from '@gatehouse/service-kit'
import { directoryOf } from './issuers.ts'
import type { CertServiceConfig } from './schema.ts'

/** Issuers of one CA share its limits, as they share the account. */
export function checkLimits({ issuers }: CertServiceConfig): readonly Fault[] {
  return issuers.flatMap((issuer, index) => {
    const { limits } = issuer
    const path = `/issuers/${index}/limits`
    const first = issuers.find(
      (other) => directoryOf(other.directory) === directoryOf(issuer.directory),
    )
    const faults = Object.entries(limits ?? {}).flatMap(([key, limit]) =>
      typeof limit === 'object' && limit.per === 0
        ? [{ path: `${path}/${key}/per`, message: 'must not be 0' }]
        : [],
    )
    if (first && !isDeepStrictEqual(first.limits, limits))
      faults.push({ path, message: `must be those of ${first.name}, which has the same account` })
    return faults
  })
}
