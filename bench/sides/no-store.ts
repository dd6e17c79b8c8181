import type {
  AuthorityRecord,
  KeyringRecord,
  Store,
} from '../../services/cert-service/src/store/store.ts'

/** What the store costs is measured against this one, which keeps its own CA and forgets every certificate. */
export function createNoStore(): Store {
  const authorities: AuthorityRecord[] = []
  let keyring: KeyringRecord | undefined
  let issued = 0

  return {
    findCurrent: async () => undefined,
    findByDomain: async () => [],
    findByName: async () => [],
    listIssued: async () => [],
    countNames: async () => ({ names: 0, until: null }),
    countKeysHeld: async () => ({ certificates: 0, until: null }),
    isCompromised: async () => false,
    list: async () => [],
    listUpcoming: async () => [],
    listDue: async () => [],
    nextDue: async () => undefined,
    addCertificate: async (certificate) => ({ ...certificate, id: ++issued }),
    setRenewAt: async () => {},
    bringForward: async () => {},
    makeFutureDue: async () => [],
    hasFuture: async () => false,
    setFetchedAt: async () => {},
    revoke: async () => [],
    remove: async () => {},
    listRevoked: async () => [],
    saveOrder: async () => {},
    findOrder: async () => undefined,
    findOrderByLineage: async () => undefined,
    listFailedOrders: async () => [],
    listPendingOrders: async () => [],
    listResumableOrders: async () => [],
    findOrderByUrl: async () => undefined,
    listUnchecked: async () => [],
    setRenewalWindow: async () => {},
    listUnexpired: async () => [],
    findAccount: async () => undefined,
    saveAccount: async () => {},
    putChallenge: async () => {},
    findChallenge: async () => undefined,
    deleteChallenge: async () => {},
    listUsage: async () => [],
    saveUsage: async () => {},
    pruneUsage: async () => [],
    addEvent: async () => {},
    listDueEvents: async () => [],
    countEvents: async () => 0,
    delayEvent: async () => {},
    deleteEvent: async () => {},
    pruneEvents: async () => {},
    listEnding: async () => ({ soonest: [], total: 0 }),
    listLate: async () => [],
    addAuthority: async (authority) => {
      const record = { ...authority, id: authorities.length + 1 }
      authorities.unshift(record)
      return record
    },
    listAuthorities: async () => authorities,
    dropAuthorityKey: async () => {},
    findCrl: async () => undefined,
    saveCrl: async () => {},
    addAudit: async () => {},
    listAudit: async () => [],
    loadKeyring: async () => keyring,
    saveKeyring: async (record) => {
      keyring = record
    },
    prune: async () => 0,
    runTime: () => 0,
    check: async () => {},
    inspect: async () => {},
    failure: () => undefined,
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  }
}
