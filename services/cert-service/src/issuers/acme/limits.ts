/** An order as the rate limits of a CA see it. */
export interface LimitedOrder {
  readonly issuer: string
  /** URL of the directory of the CA. */
  readonly directory: string
  readonly names: readonly string[]
  /** Whether the order names the certificate that it replaces (ARI), which CAs exempt. */
  readonly renewal: boolean
}

/** An account to be registered. */
export type LimitedAccount = Pick<LimitedOrder, 'issuer' | 'directory'>

/** Keeps track of the rate limits of CAs, so that no order runs into them. */
export interface IssuanceLimits {
  /** Called before an account is registered. @throws CertError with `retryAfter` */
  admitAccount(account: LimitedAccount): void
  /** Called once the account is registered. */
  registered(account: LimitedAccount): void
  /** Called before an order is placed. @throws CertError with `retryAfter` */
  admit(order: LimitedOrder): void
  /** Called when an order is resumed that was placed by an earlier try. */
  resumed(order: LimitedOrder): void
  /** Called once the order is placed. */
  ordered(order: LimitedOrder): void
  /** Called when the CA could not validate these of its names. */
  failed(order: LimitedOrder, names: readonly string[]): void
  /** Called once the certificate is issued. */
  issued(order: LimitedOrder): void
}
