import type { OpenIdProduct } from './product.ts'

const NAME = { name: 'Ada Lovelace', given_name: 'Ada', family_name: 'Lovelace' }
const EMAIL = { email: 'ada@example.com', email_verified: true }

/**
 * What each product tells of a person, as far as it differs from others, by the name of its guide. One that has a
 * preset has a configuration of it too.
 */
export const PRODUCTS: Readonly<Record<string, OpenIdProduct>> = {
  google: {
    config: { type: 'google' },
    profile: { id: '110169484474386276334', email: { verified: true } },
    issuer: 'https://accounts.google.com',
    idToken: {
      ...{ sub: '110169484474386276334', hd: 'example.com', ...NAME, ...EMAIL },
      picture: 'https://lh3.googleusercontent.com/a/ada',
    },
  },
  entra: {
    config: { type: 'microsoftEntraID', tenantId: '6f0c2c1e-1111-4222-8333-444455556666' },
    profile: { id: '0d3f3b1e-5a0f-4b8e-b7a4-6c2f1e9d8a01', email: { verified: false } },
    issuer: 'https://login.microsoftonline.com/6f0c2c1e-1111-4222-8333-444455556666/v2.0',
    idToken: {
      ...{ sub: 'pairwise', name: 'Ada Lovelace', email: 'ada@example.com' },
      oid: '0d3f3b1e-5a0f-4b8e-b7a4-6c2f1e9d8a01',
      tid: '6f0c2c1e-1111-4222-8333-444455556666',
      groups: ['5f0c2c1e-1111-4222-8333-444455556666'],
    },
  },
  keycloak: {
    issuer: 'https://keycloak.example.com/realms/example',
    scopesSupported: ['openid', 'profile', 'email', 'roles', 'acr', 'basic'],
    idToken: {
      ...{ sub: '7f3f0c1e-5b1c-4a51-9d6f-1d7d3c7a9b55', ...NAME, ...EMAIL },
      ...{ preferred_username: 'ada', groups: ['staff'] },
    },
  },
  authentik: {
    issuer: 'https://authentik.example.com/application/o/gatehouse/',
    scopesSupported: ['openid', 'profile', 'email'],
    idToken: {
      sub: '2c1f8c0de56a4c0f8a7c1b9f0c4b6a0e7d2e0f6b1a3c5d7e9f1a2b3c4d5e6f70',
      ...{ ...EMAIL, email_verified: false },
      ...{ name: 'Ada Lovelace', given_name: 'Ada Lovelace', preferred_username: 'ada' },
      ...{ nickname: 'ada', groups: ['staff'] },
    },
  },
  gitlab: {
    config: { type: 'gitlab', url: 'https://gitlab.example.com/', groups: ['acme'] },
    profile: { id: '4711', groups: ['acme', 'acme/ops'] },
    issuer: 'https://gitlab.example.com',
    scopesSupported: ['openid', 'profile', 'email', 'api'],
    idToken: { sub: '4711', name: 'Ada Lovelace', ...EMAIL, groups_direct: ['acme/ops'] },
    userInfo: { groups: ['acme', 'acme/ops', 'acme-fans'] },
  },
  'pocket-id': {
    config: { type: 'pocketID', url: 'https://id.example.com/' },
    profile: { id: '9f1c3d1a-6b0e-4f0d-8f57-3a2f6d1f9b10', groups: ['family'] },
    issuer: 'https://id.example.com',
    scopesSupported: ['openid', 'profile', 'email', 'groups'],
    idToken: {
      ...{ sub: '9f1c3d1a-6b0e-4f0d-8f57-3a2f6d1f9b10', ...NAME, ...EMAIL },
      preferred_username: 'ada',
      picture: 'https://id.example.com/api/users/ada/profile-picture.png',
    },
    forScope: { groups: { groups: ['family'] } },
  },
  zitadel: {
    issuer: 'https://zitadel.example.com',
    scopesSupported: ['openid', 'profile', 'email', 'phone', 'address', 'offline_access'],
    idToken: {
      sub: '279999999999999999',
      'urn:zitadel:iam:org:project:roles': { staff: { 270000000000000001: 'example.com' } },
    },
    userInfo: { ...NAME, ...EMAIL, preferred_username: 'ada@example.com' },
  },
  dex: {
    issuer: 'https://dex.example.com/dex',
    scopesSupported: ['openid', 'email', 'groups', 'profile', 'offline_access'],
    idToken: { sub: 'CgNhZGESBGxkYXA', name: 'Ada Lovelace', ...EMAIL },
    forScope: { groups: { groups: ['staff'] } },
  },
}
