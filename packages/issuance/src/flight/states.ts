import type { Lease } from '@gatehouse/cert-store/port'

/** The state of a flight. With a lease, this replica does the work. A flight that does not land starts again. */
export type FlightState =
  /** The flight asks for the lease. */
  | { readonly name: 'starting' }
  /** Another replica has the lease, and may store the certificate. */
  | { readonly name: 'following' }
  /** The issuer works. */
  | { readonly name: 'leading'; readonly lease: Lease; readonly step?: string }
  /** The issuer has signed: what is left is one commit. */
  | { readonly name: 'storing'; readonly lease: Lease }
  /** The certificate was issued here, so that the audit row of that covers who asked first. */
  | { readonly name: 'landed' }

/** The steps as orders show them, until an issuer reports its own. */
const STEPS: Readonly<Record<FlightState['name'], string>> = {
  starting: 'starting',
  following: 'another replica is issuing it',
  leading: 'starting',
  storing: 'storing',
  landed: 'storing',
}

export function stepOf(state: FlightState): string {
  return (state.name === 'leading' && state.step) || STEPS[state.name]
}
