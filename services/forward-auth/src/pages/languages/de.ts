import type { Texts } from './en.ts'

export const de: Texts = {
  brand: 'Gatehouse',
  retry: 'Erneut versuchen',
  requestId: 'Anfrage',
  details: 'Einzelheiten:',
  contact: 'Brauchen Sie Hilfe?',
  signIn: {
    title: 'Anmelden',
    text: 'Weiter zu {host}',
    choices: 'Anmelden mit',
    failing: 'Antwortet zurzeit nicht',
  },
  signedIn: {
    title: 'Sie sind angemeldet',
    back: 'Weiter zu {host}',
    apps: 'Ihre Apps',
    noApps: 'Dieses Konto hat hier noch auf keine App Zugriff.',
    profile: 'Mein Profil anzeigen',
    signOut: 'Abmelden',
  },
  sessions: {
    title: 'Ihre Sitzungen',
    here: 'Dieser Browser',
    device: '{browser} unter {system}',
    unknown: 'Unbekanntes Gerät',
    address: 'IP-Adresse',
    begun: 'Angemeldet',
    lastSeen: 'Zuletzt aktiv',
    ends: 'Läuft ab',
    hosts: 'Verwendet bei',
    end: 'Sitzung beenden',
    others: 'Alle anderen Sitzungen beenden',
    everywhere: 'Überall abmelden',
    more: 'Es werden nur die {count} neuesten Sitzungen angezeigt.',
    all: 'Sitzungen aller Personen',
    whose: 'Vollständige E-Mail-Adresse oder Kennung einer Person',
    search: 'Suchen',
    none: 'Keine Sitzungen gefunden.',
    endAll: 'Alle Sitzungen dieser Person beenden',
  },
  consent: {
    title: 'Darf diese App für Sie handeln?',
    app: 'Angefragt von',
    selfRegistered:
      'Eine App, die sich selbst registriert hat. Niemand hat bestätigt, von wem sie stammt.',
    callsItself: 'Nennt sich',
    answer: 'Zugriff erhält',
    opens: 'Die App auf diesem Gerät, die Links mit {scheme} öffnet',
    resource: 'Möchte verwenden',
    scopes: 'Was sie tun darf',
    loopback:
      'Den Zugriff erhält ein Programm auf diesem Gerät, und jedes Programm darauf könnte die Anfrage ' +
      'gestellt haben. Erlauben Sie ihn nur, wenn Sie die App gerade selbst gestartet haben.',
    allow: 'Erlauben',
    deny: 'Ablehnen',
  },
  agents: {
    title: 'Verbundene Agenten',
    selfRegistered: 'Hat sich selbst registriert',
    resource: 'Darf verwenden',
    scopes: 'Berechtigungen',
    begun: 'Verbunden',
    lastCall: 'Letzter Aufruf',
    end: 'Verbindung trennen',
    more: 'Es werden nur die {count} neuesten Agenten angezeigt.',
  },
  signOut: {
    title: 'Abmelden?',
    text: 'Danach müssen Sie sich bei allen Apps, die diese Anmeldung verwenden, neu anmelden.',
    confirm: 'Abmelden',
    stay: 'Angemeldet bleiben',
  },
  signedOut: {
    title: 'Sie sind abgemeldet',
    text: 'Sie können diese Seite schließen.',
    notStored:
      'Ihre Sitzung wurde aus diesem Browser entfernt, aber der Server konnte nicht speichern, dass sie ' +
      'beendet ist. Falls jemand sie kopiert hat, kann die Kopie bis {end} gültig bleiben. Bitte ' +
      'informieren Sie die Administration dieser Website.',
    provider: 'Auch bei {provider} abmelden',
    signIn: 'Wieder anmelden',
  },
  refused: {
    title: 'Kein Zugriff mit diesem Konto',
    text:
      'Sie sind angemeldet, aber dieses Konto hat keinen Zugriff auf diese Seite. Wenn Sie Zugriff ' +
      'brauchen, wenden Sie sich an die Administration.',
    other: 'Mit einem anderen Konto anmelden',
  },
  framed: {
    title: 'Melden Sie sich an, um dies zu sehen',
    text: 'Die Anmeldung braucht ein eigenes Fenster. Laden Sie danach diese Seite neu.',
  },
  unsent: {
    title: 'Es wurde noch nichts gesendet',
    text: 'Die App hat nichts erhalten. Vielleicht müssen Sie sich zuerst anmelden.',
    reload:
      'Laden Sie diese Seite neu, dann sendet Ihr Browser alles noch einmal. ' +
      'Erscheint diese Seite wieder, melden Sie sich zuerst an. Oder gehen Sie zurück: Ihre Eingaben sollten noch da sein.',
  },
  providerDown: {
    title: '{provider} antwortet nicht',
    text: 'Dort ist die Anmeldung zurzeit nicht möglich. Mit Ihrem Konto ist alles in Ordnung.',
    other: 'Auf andere Weise anmelden',
  },
  providerSays: 'Meldung des Anmeldedienstes:',
  errors: {
    FWA_CALLBACK_FOREIGN: {
      title: 'Antwort von einem anderen Anmeldedienst',
      happened:
        'Die Antwort kam von einem anderen Anmeldedienst als dem, bei dem Sie begonnen haben.',
      next: 'Beginnen Sie die Anmeldung von vorn. Wenn das wieder passiert, informieren Sie die Administration.',
    },
    FWA_CLIENT_INVALID: {
      title: 'Client nicht zulässig',
      happened:
        'Die App, die Zugriff möchte, beschreibt sich auf eine Weise, die diese Website nicht akzeptiert.',
      next: 'Informieren Sie die Entwickler der App. Die Einzelheiten stehen unten.',
    },
    FWA_CLIENT_RATE: {
      title: 'Zu viele neue Clients',
      happened: 'Dieses Konto hat in kurzer Zeit zu viele neue Apps verwendet.',
      next: 'Warten Sie eine Minute, und versuchen Sie es dann noch einmal.',
    },
    FWA_CLIENT_UNREACHABLE: {
      title: 'Beschreibung des Clients nicht lesbar',
      happened: 'Diese Website kann die Beschreibung der App, die Zugriff möchte, nicht abrufen.',
      next: 'Versuchen Sie es gleich noch einmal. Wenn das nicht hilft, informieren Sie die Entwickler der App.',
    },
    FWA_COOKIES_BLOCKED: {
      title: 'Browser speichert keine Cookies',
      happened: 'Ihr Browser speichert die Cookies dieser App nicht.',
      next: 'Erlauben Sie Cookies für diese Website, oder öffnen Sie die App in einem eigenen Tab.',
    },
    FWA_COOKIE_DUPLICATE: {
      title: 'Sitzungs-Cookie doppelt gesendet',
      happened:
        'Eine andere Website hat ein zweites Sitzungs-Cookie gesetzt. Deshalb wird keines der beiden akzeptiert.',
      next: 'Löschen Sie die Cookies dieser Website im Browser, und versuchen Sie es noch einmal.',
    },
    FWA_FORBIDDEN: {
      title: 'Kein Zugriff für dieses Konto',
      happened: 'Dieses Konto hat keinen Zugriff auf diese Seite.',
      next: 'Melden Sie sich mit einem anderen Konto an, oder bitten Sie die Administration um Zugriff.',
    },
    FWA_LOGIN_REFUSED: {
      title: 'Anmeldung abgelehnt',
      happened: 'Der Anmeldedienst hat Sie nicht angemeldet.',
      next: 'Versuchen Sie es noch einmal, oder melden Sie sich mit einem anderen Konto an.',
    },
    FWA_LOGIN_UNKNOWN: {
      title: 'Anmeldung abgelaufen oder in einem anderen Browser begonnen',
      happened: 'Die Anmeldung hat zu lange gedauert oder wurde in einem anderen Browser begonnen.',
      next: 'Versuchen Sie es noch einmal, und erlauben Sie Cookies für diese Website.',
    },
    FWA_OAUTH_INVALID: {
      title: 'Anfrage dieser App ungültig',
      happened:
        'Die App, von der Sie kommen, hat einen Fehler gemacht. Sie hat keine Daten erhalten.',
      next:
        'Gehen Sie zurück zur App, und versuchen Sie es noch einmal. Wenn das wieder passiert, leiten Sie ' +
        'die Angaben unten an den Hersteller der App weiter.',
    },
    FWA_ORIGIN_FOREIGN: {
      title: 'Anfrage von einer anderen Website',
      happened: 'Eine andere Website wollte eine Sitzung beenden. Es wurde nichts geändert.',
      next: 'Wenn Sie eine Sitzung beenden möchten, verwenden Sie die Seiten dieser Website.',
    },
    FWA_PORTAL_UNKNOWN: {
      title: 'Dieses Portal gibt es nicht',
      happened: 'Unter dieser Adresse gibt es keine Anmeldeseite.',
      next: 'Prüfen Sie die Adresse, oder öffnen Sie die App noch einmal.',
    },
    FWA_PROVIDER_UNKNOWN: {
      title: 'Diesen Anmeldedienst gibt es nicht',
      happened: 'Diese Anmeldeseite hat keinen Anmeldedienst mit diesem Namen.',
      next: 'Öffnen Sie die App noch einmal, und wählen Sie einen Dienst aus der Liste.',
    },
    FWA_PROVIDER_UNREACHABLE: {
      title: 'Anmeldedienst nicht erreichbar',
      happened: 'Der Anmeldedienst antwortet nicht.',
      next: 'Versuchen Sie es gleich noch einmal, oder melden Sie sich auf andere Weise an.',
    },
    FWA_SESSION_TOO_LARGE: {
      title: 'Sitzung zu groß',
      happened: 'Der Anmeldedienst sendet mehr Angaben über Sie, als in ein Cookie passen.',
      next: 'Bitten Sie die Administration, Ihr Konto aus einigen Gruppen zu entfernen.',
    },
    FWA_SIGN_IN_LOOP: {
      title: 'Endlose Weiterleitung',
      happened: 'Sie sind angemeldet, aber die App schickt Sie immer wieder zur Anmeldung.',
      next: 'Löschen Sie die Cookies dieser Website, und erlauben Sie Cookies. Wenn das nicht hilft, informieren Sie die Administration.',
    },
    FWA_SIGN_IN_POLICY: {
      title: 'Link zur Anmeldung ungültig',
      happened: 'Der Link, über den Sie hierhergekommen sind, ist nicht mehr gültig.',
      next: 'Öffnen Sie die App noch einmal, um einen neuen Link zu erhalten.',
    },
    FWA_SIGN_IN_RATE: {
      title: 'Zu viele Anmeldungen',
      happened: 'Dieses Konto hat sich in kurzer Zeit zu oft angemeldet.',
      next: 'Warten Sie eine Minute, und versuchen Sie es dann noch einmal.',
    },
    FWA_STEP_UP_UNMET: {
      title: 'Anmeldung reicht nicht aus',
      happened:
        'Diese Seite erfordert eine andere Anmeldung, zum Beispiel mit einem zweiten Faktor.',
      next: 'Versuchen Sie es noch einmal mit der verlangten Methode. Wenn das nicht hilft, informieren Sie die Administration.',
    },
    FWA_STORE_STALE: {
      title: 'Sitzungen können nicht geprüft werden',
      happened: 'Diese Website kann zurzeit nicht prüfen, wer angemeldet ist.',
      next: 'Versuchen Sie es in ein paar Minuten noch einmal.',
    },
    NOT_FOUND: {
      title: 'Nicht gefunden',
      happened: 'Unter dieser Adresse wurde nichts gefunden.',
      next: 'Prüfen Sie die Adresse, oder öffnen Sie die App noch einmal.',
    },
    SETUP: {
      title: 'Diese Website ist nicht richtig eingerichtet',
      happened:
        'Sie haben nichts falsch gemacht. Die Konfiguration dieser Website muss korrigiert werden.',
      next: 'Leiten Sie die Angaben unten an die Administration weiter.',
    },
    INTERNAL: {
      title: 'Etwas ist schiefgegangen',
      happened: 'Auf dieser Website ist ein Fehler aufgetreten. Er wurde protokolliert.',
      next: 'Versuchen Sie es noch einmal. Wenn das wieder passiert, leiten Sie die Angaben unten an die Administration weiter.',
    },
    REQUEST: {
      title: 'Anfrage nicht verstanden',
      happened: 'Diese Website konnte die Anfrage Ihres Browsers nicht verarbeiten.',
      next: 'Gehen Sie zurück und versuchen Sie es noch einmal, oder öffnen Sie die App neu.',
    },
  },
}
