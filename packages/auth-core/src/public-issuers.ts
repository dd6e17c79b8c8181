/** Issuers that give a token to anyone who creates an account. */
const PUBLIC_ISSUERS: ReadonlySet<string> = new Set([
  'https://accounts.google.com',
  'https://agent.buildkite.com',
  'https://app.terraform.io',
  'https://appleid.apple.com',
  'https://gitlab.com',
  'https://oauth2.sigstore.dev/auth',
  'https://oidc.codefresh.io',
  'https://token.actions.githubusercontent.com',
  'https://www.facebook.com',
  'https://www.linkedin.com/oauth',
])

/** Tenants of Microsoft that are open to all; the last one is that of personal accounts. */
const MICROSOFT_FOR_ALL =
  /^https:\/\/login\.microsoftonline\.com\/(common|organizations|consumers|9188040d-6c67-4c5b-b112-36a304b66dad)(\/v2\.0)?$/

/**
 * Whether an issuer gives a token to anyone who creates an account there, such as Google or GitHub Actions.
 * A token of such an issuer says who the caller is, and not that you know the caller.
 */
export function isPublicIssuer(issuerUrl: string): boolean {
  const url = (URL.parse(issuerUrl)?.href ?? issuerUrl).replace(/(?<!\/)\/+$/, '')
  return PUBLIC_ISSUERS.has(url) || MICROSOFT_FOR_ALL.test(url)
}
