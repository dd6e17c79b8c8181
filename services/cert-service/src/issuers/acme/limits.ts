/** An order as the limits of a CA see it. */
export interface LimitedOrder {
  readonly issuer: string
  /** URL of the CA's directory. */
  readonly directory: string
  readonly names: readonly string[]
  /** Whether it tells the CA which certificate it replaces (ARI), which CAs let pass. */
  readonly renewal: boolean
}

/** An account that is to be registered. */
export type LimitedAccount = Pick<LimitedOrder, 'issuer' | 'directory'>

/** What is known of the limits of the CAs, so that no order runs into them. */
export interface IssuanceLimits {
  /** Called before an account is registered. @throws CertError with `retryAfter` */
  admitAccount(account: LimitedAccount): void
  /** It was registered. */
  registered(account: LimitedAccount): void
  /** Called before an order is placed. @throws CertError with `retryAfter` */
  admit(order: LimitedOrder): void
  /** It was placed at an earlier try, and is gone on with. */
  resumed(order: LimitedOrder): void
  /** It was placed. */
  ordered(order: LimitedOrder): void
  /** The CA saw no proof for these of its names. */
  failed(order: LimitedOrder, names: readonly string[]): void
  /** Its certificate was issued. */
  issued(order: LimitedOrder): void
}
