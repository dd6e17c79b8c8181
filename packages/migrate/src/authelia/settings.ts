import { type SettingTable, settings } from '../table.ts'

/** Every setting of Authelia 4.37 to 4.39, and what it becomes; `**` stands for all of a section. */
export const AUTHELIA: SettingTable = settings({
  'access_control.default_policy access_control.rules.** access_control.networks.**': [
    '`rules`, `policies`',
    'a group is `Group()`, a user `claims.preferred_username`; `domain_regex`, `{user}`, `{group}`, `query` and ' +
      'most `resources` are marked: paths are `/x` with what is below it',
  ],
  'session.domain session.cookies.$.domain': ['`domains[].domain`'],
  'session.cookies.$.authelia_url': [
    '`domains[].authHost`',
    'another host if Authelia stays as the provider',
  ],
  'session.expiration session.cookies.$.expiration': ['`session.lifetime`', '1h there; 8h here'],
  'session.inactivity session.cookies.$.inactivity': ['`portals[].session.idle`', '5m there'],
  'session.remember_me session.remember_me_duration session.cookies.$.remember_me':
    'nobody is asked: `session.lifetime` is for all, and the session at the provider usually saves them the sign-in',
  'session.cookies.$.default_redirection_url default_redirection_url':
    'people go back to where they came from, and the portal lists the apps',
  'session.** storage.**':
    'sessions are in `storage`, and each host has a cookie of its own; the database of Authelia is not read',
  'server.address server.host server.port': ['`server.host`, `server.port`', '9091 there'],
  'server.** log.** telemetry.**':
    'checks are at `/portals/main`, or `/portals/main/authz/nginx` for nginx; see `server.tls`, `log` and `metrics`',
  'identity_providers.**':
    'Gatehouse is no provider for apps: the clients stay at Authelia, or move to the new provider',
  'authentication_backend.** password_policy.** identity_validation.** jwt_secret':
    'Gatehouse has no users: they stay at Authelia as the provider, or get accounts at a new one, which may read the ' +
    'same LDAP; passwords of a file cannot move',
  'totp.** webauthn.** duo_api.** default_2fa_method':
    'second factors are at the provider, where people register them anew',
  'notifier.**': 'Gatehouse sends no mail to people: the provider resets passwords',
  'regulation.**': 'the provider bans who guesses passwords; here sign-ins are limited',
  'theme ntp.** definitions.** privacy_policy.** certificates_directory': 'not needed here',
})
