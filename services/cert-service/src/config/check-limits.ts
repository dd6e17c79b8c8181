import { isDeepStrictEqual } from 'node:util'
import { applyRules, applyToEach, type Fault } from '@gatehouse/service-kit'
import { directoryOf } from './issuers.ts'
import type { CertServiceConfig } from './schema.ts'

/** Issuers of one CA share its limits, as they share the account. */
export function checkLimits({ issuers }: CertServiceConfig): readonly Fault[] {
  return applyToEach(issuers, '/issuers', [
    ({ limits = {} }) =>
      applyRules(
        limits,
        Object.keys(limits).map((key) => () => {
          const limit = limits[key as keyof typeof limits]
          const isNever = typeof limit === 'object' && limit.per === 0
          return isNever ? [{ path: `/limits/${key}/per`, message: 'must not be 0' }] : []
        }),
      ),
    ({ directory, limits }) => {
      const first = issuers.find((other) => directoryOf(other.directory) === directoryOf(directory))
      if (!first || isDeepStrictEqual(first.limits, limits)) return []
      const message = `must be those of ${first.name}, which has the same account`
      return [{ path: '/limits', message }]
    },
  ])
}
