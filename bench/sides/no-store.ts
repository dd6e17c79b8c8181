import type { AuthorityRecord, KeyringRecord, Store } from '../../packages/cert-store/src/store.ts'
import { Usage } from '../../packages/cert-store/src/usage.ts'

const NEVER = new AbortController().signal

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
    compromise: async () => {},
    listHistory: async () => [],
    acme: {
      counterOf: async () => 1,
      renewExternalAccount: async () => 2,
      addAccount: async (account) => account,
      findAccount: async () => undefined,
      findAccountByKey: async () => undefined,
      listAccounts: async () => [],
      endAccount: async () => {},
      changeContact: async () => {},
      changeKey: async () => undefined,
      touchAccounts: async () => {},
      addOrder: async (order) => order,
      findOrder: async () => undefined,
      listOrders: async () => [],
      claimOrder: async () => true,
      endOrder: async () => true,
      changeOrder: async () => {},
    },
    findBySerial: async () => undefined,
    listAuditOf: async () => [],
    countNames: async () => ({ count: 0, until: null }),
    countInUse: async () => ({ count: 0, until: null }),
    isCompromised: async () => false,
    list: async () => [],
    listCertificates: async () => [],
    tally: async () => ({
      counts: { renews: 0, due: 0, unrenewed: 0, failing: 0, ended: 0 },
      renewals: [],
      ends: [],
    }),
    findByFingerprint: async () => undefined,
    findIssued: async () => undefined,
    listBySerial: async () => [],
    listOfAccount: async () => [],
    claimDue: async () => [],
    addCertificate: async (certificate) => ({ ...certificate, id: ++issued }),
    setRenewAt: async () => {},
    bringForward: async () => {},
    makeFutureDue: async () => [],
    hasFuture: async () => false,
    setFetchedAt: async () => {},
    revoke: async () => [],
    remove: async () => {},
    listRevoked: async () => [],
    takeLease: async ({ requestKey }) => ({ requestKey, token: 1, currentId: null, lost: NEVER }),
    releaseLease: async () => {},
    isBusyElsewhere: async () => false,
    saveOrder: async ({ id }) => id,
    fileOrder: async (order) => order,
    findOrder: async () => undefined,
    findOrderByRequestKey: async () => undefined,
    findOrders: async () => new Map(),
    listFailedOrders: async () => [],
    countFailedOrders: async () => ({}),
    listPendingOrders: async () => [],
    listResumableOrders: async () => [],
    findOrderByUrl: async () => undefined,
    claimUnchecked: async () => [],
    setRenewalWindow: async () => {},
    findAccount: async () => undefined,
    addAccount: async (account) => account,
    saveAccount: async () => {},
    putChallenge: async () => {},
    findChallenge: async () => undefined,
    deleteChallenge: async () => {},
    changeUsage: async (_, change) => change(new Usage([], [])),
    pruneUsage: async () => {},
    addEvent: async () => {},
    claimDueEvents: async () => [],
    countEvents: async () => ({}),
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
    replaceCrl: async (_authority, _now, next) => next(undefined, []),
    addAudit: async () => {},
    listAudit: async () => [],
    addSignIn: async () => {},
    touchSignIn: async () => {},
    findSignIn: async () => undefined,
    deleteSignIn: async () => {},
    loadKeyring: async () => keyring,
    createKeyring: async (check) => {
      keyring = { check, dataKeys: [] }
      return true
    },
    addDataKey: async (key) => {
      if (!keyring) return false
      keyring = { ...keyring, dataKeys: [...keyring.dataKeys, key] }
      return true
    },
    countSeals: async (_, seals) => seals,
    replaceKeyring: async () => false,
    isShared: false,
    isLeader: () => true,
    onChange() {},
    awaitReplicas: async () => [],
    prune: async () => 0,
    runTime: () => 0,
    check: async () => {},
    inspect: async () => {},
    failure: () => undefined,
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  }
}
