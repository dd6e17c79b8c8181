/** The issuer of all certificates of the profile `client`; all others issue those of `server`. */
export const CLIENT_ISSUER = 'ca-client'

/**
 * SQL: a certificate is covered, as each of its names is in a certificate of its profile that is renewed and ends later: one of the
 * same caller, or of `any`. What nobody renews is then no fault of the name.
 */
export function isCovered(scope: 'any' | 'caller'): string {
  const isOwn =
    'AND (later.asked_by = certificates.asked_by OR later.account = certificates.account)'
  const isLater = `later.is_current AND later.renew_at IS NOT NULL AND later.not_after > certificates.not_after
    AND (later.issuer = '${CLIENT_ISSUER}') = (certificates.issuer = '${CLIENT_ISSUER}') ${scope === 'any' ? '' : isOwn}`
  const hasLater = (name: string) => `(
    EXISTS (SELECT 1 FROM certificates AS later WHERE later.domain = ${name} AND ${isLater})
    OR EXISTS (
      SELECT 1 FROM certificate_names AS other JOIN certificates AS later ON later.id = other.certificate
      WHERE other.name = ${name} AND other.not_after > certificates.not_after AND ${isLater}))`
  return `(${hasLater('certificates.domain')} AND NOT EXISTS (
    SELECT 1 FROM certificate_names AS own
    WHERE own.certificate = certificates.id AND NOT ${hasLater('own.name')}))`
}
