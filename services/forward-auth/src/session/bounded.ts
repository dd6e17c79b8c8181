type TokenClaims = Readonly<Record<string, unknown>>

/**
 * Signs claims, without some of the optional ones if the token would be too long: it names those. Undefined if
 * the others alone are too long.
 */
export function signBounded(
  claims: TokenClaims,
  optional: readonly string[],
  sign: (claims: TokenClaims) => string,
  max: number,
): string | undefined {
  let token = sign(claims)
  const kept: Record<string, unknown> = { ...claims }
  const left: string[] = []
  for (const name of optional) {
    if (token.length <= max) return token
    if (!(name in claims)) continue
    delete kept[name]
    left.push(name)
    token = sign({ ...kept, _claim_names: { ...Object(claims._claim_names), ...namesOf(left) } })
  }
  return token.length <= max ? token : undefined
}

/** Names claims that a token does not hold (OpenID Connect Core section 5.6.2). */
export function namesOf(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, 'unknown']))
}
