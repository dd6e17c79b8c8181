import { isDeepStrictEqual } from 'node:util'
import { applyToEach, type Fault } from '@gatehouse/service-kit'
import { directoryOf } from './issuers.ts'
import type { CertServiceConfig } from './schema.ts'

/** Issuers of one CA share its limits, also those with an account of their own. */
export function checkLimits({ issuers }: CertServiceConfig): readonly Fault[] {
  return applyToEach(issuers, '/issuers', [
    ({ directory, limits }) => {
      const first = issuers.find((other) => directoryOf(other.directory) === directoryOf(directory))
      if (!first || isDeepStrictEqual(first.limits, limits)) return []
      const message = `must be those of ${first.name}, which orders from the same CA`
      return [{ path: '/limits', message }]
    },
  ])
}
