import { DIALECTS } from '@gatehouse/service-kit/proxies'

/** Paths below a portal where proxies ask, and where an answer is unpacked. */
export const CHECK_PATHS: readonly string[] = DIALECTS.flatMap(({ name, source, isSealed }) => {
  const path = name === 'forward' ? '' : `/authz/${name}`
  if (source === 'request-line') return [`${path}/policy/:policy`, `${path}/policy/:policy/*`]
  return isSealed ? [path, `${path}/answer`] : [path]
})
